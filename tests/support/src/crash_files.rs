//! The crash files of a small process.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use protozero::HeapBuffered;
use tracezero_core::crash_files::format::{Place, SlotHeader, SlotKind, SlotState, check_of};
use tracezero_core::crash_files::{ProcessFolder, RingFile, SessionFolder, StateFile, WriterRows};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::protos::{Trace, TracePacket, VmProgram, states};
use tracezero_core::shm::{ChunkFlags, Geometry, NewChunk, PageLayout};

/// The number of packets in the ring. One more is in the shared memory.
pub const PACKETS: u32 = 20;

/// The files of the process: one session, one ring, and the state that the ring keeps.
pub const FILES: [&str; 5] = ["meta", "smb", "s0/preamble", "s0/b0.0", "s0/states0.0"];

/// Encodes a packet with its size, as a chunk has it.
fn fragment(number: u32) -> Vec<u8> {
    let mut packet = HeapBuffered::<TracePacket<'_>>::new();
    packet.message().for_testing(|event| {
        event.set_counter(number.into());
        event.set_str(&"x".repeat(100));
    });
    let packet = packet.to_vec();
    let size = packet.len() as u32;
    let mut bytes: Vec<u8> = [0, 7, 14, 21]
        .map(|shift| (size >> shift) as u8 & 0x7f | if shift < 21 { 0x80 } else { 0 })
        .to_vec();
    bytes.extend(packet);
    bytes
}

/// Encodes the log of a state with one change, which the writer has made before what is in the ring.
fn state_log(nonce: u64) -> Vec<u8> {
    let mut program = HeapBuffered::<VmProgram<'_>>::new();
    program.message().add_instructions(|out| {
        out.merge(|_| {});
    });
    let mut packet = HeapBuffered::<TracePacket<'_>>::new();
    packet.message().set_timestamp(1);
    let mut log = HeapBuffered::<states::StateLog<'_>>::new();
    let mut out = log.message();
    out.add_records(|record| {
        record.state(|state| {
            state.set_data_source("test");
            state.set_program(&program.to_vec());
            state.set_limit_kib(1);
        });
    });
    out.add_records(|record| {
        record.add_changes(|change| {
            change.set_state(0);
            change.set_packet(&packet.to_vec());
        });
        record.add_writers(|writer| {
            let before = u32::MAX;
            writer.set_writer_id(1);
            writer.set_chunk_id(before);
            writer.set_chunk_bytes(100);
            writer.set_folded(1);
            writer.set_lost(0);
            let (folded, has_lost, lost) = (1, 1, 0);
            let numbers = [1, before.into(), 100, folded, has_lost, lost];
            writer.set_check(check_of(nonce, numbers));
        });
    });
    drop(out);
    log.to_vec()
}

/// Writes the files of a process into a new folder in `directory`, and returns its path. The folder
/// is a copy: that of the process would be locked while the process lives.
///
/// The numbers of the packets are `0..PACKETS`. A writer was in the middle of the next one.
#[must_use]
pub fn leave_crash_files(directory: &Path) -> PathBuf {
    let geometry = Geometry::new(8192, 4096).unwrap();
    let process = ProcessFolder::create(directory, "test", geometry).unwrap();
    let mut rows = WriterRows::of_folder(process.clone());
    let row = rows.take(Some(WriterId(1)), BufferId(1), Some("worker"));
    // Relaxed: one thread.
    row.counters()[0].store(u64::from(PACKETS) + 2, Ordering::Relaxed);
    let (memory, _service) = process.shared_memory().unwrap();
    let header = NewChunk {
        writer_id: WriterId(1),
        chunk_id: ChunkId(PACKETS),
        flags: ChunkFlags::NONE,
    };
    let chunk = memory.acquire_for_writing(0, PageLayout::Four, header);
    drop(chunk);

    let session = SessionFolder::create(&process).unwrap();
    let mut preamble = HeapBuffered::<Trace<'_>>::new();
    preamble.message().add_packet(|packet| {
        packet.set_timestamp(1);
    });
    session.append_packets(&preamble.to_vec()).unwrap();
    let ring = RingFile::create(&session, 0, 16384, false).unwrap();
    ring.set_buffer_id(BufferId(1));
    let (mut pages, segment) = ring.add_segment().unwrap();
    let mut offset = 0;
    for number in 0..PACKETS {
        let payload = fragment(number);
        let header = SlotHeader {
            chunk_id: ChunkId(number),
            writer_id: WriterId(1),
            reserved_bytes: payload.len() as u16,
            state: SlotState {
                payload_bytes: payload.len() as u16,
                flags: ChunkFlags::NONE,
                kind: SlotKind::Chunk {
                    is_incomplete: false,
                    is_aborted: false,
                },
            },
        };
        let bytes = header.encode(offset as u32, ring.nonce());
        pages[offset..offset + bytes.len()].copy_from_slice(&bytes);
        pages[offset + bytes.len()..offset + bytes.len() + payload.len()].copy_from_slice(&payload);
        offset += header.size_bytes();
    }
    ring.set_place(Place {
        offset_bytes: offset as u32,
        size_bytes: 0,
    });
    let states = StateFile::create(&ring, |file| file.write_all(&state_log(ring.nonce()))).unwrap();
    let copy = directory.join("copy.tz");
    fs::create_dir_all(copy.join("s0")).unwrap();
    for file in FILES {
        fs::copy(process.path().join(file), copy.join(file)).unwrap();
    }
    drop((pages, segment, states));
    copy
}
