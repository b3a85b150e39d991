//! Damaged crash files: what is sound is recovered, what is damaged is named, and nothing panics.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs;
use std::path::{Path, PathBuf};

use protozero::HeapBuffered;
use support::Folder;
use tracezero_core::crash_files::format::{HEADER_BYTES, Place, SlotHeader, SlotKind, SlotState};
use tracezero_core::crash_files::{ProcessFolder, RingFile, SessionFolder, WriterRows};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::protos::{Trace, TraceDecoder, TracePacket};
use tracezero_core::shm::{ChunkFlags, Geometry, NewChunk, PageLayout};
use tracezero_crash::{Leftover, RecoverError, RecoveredTrace};

/// The number of packets in the ring. One more is in the shared memory.
const PACKETS: u32 = 20;

/// The files of a process: one session, one ring.
const FILES: [&str; 4] = ["meta", "smb", "s0/preamble", "s0/b0.0"];

/// A packet with its size, as a chunk has it.
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

/// Leaves the files of a process in `folder`, which would be locked while the process lives.
fn leave_files(folder: &Path) -> PathBuf {
    let geometry = Geometry::new(8192, 4096).unwrap();
    let process = ProcessFolder::create(folder, "test", geometry).unwrap();
    let mut rows = WriterRows::of_folder(process.clone());
    let row = rows.take(Some(WriterId(1)), BufferId(1), Some("worker"));
    // Relaxed: one thread.
    row.counters()[0].store(u64::from(PACKETS) + 1, std::sync::atomic::Ordering::Relaxed);
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
    let copy = folder.join("copy.tz");
    copy_files(process.path(), &copy);
    drop((pages, segment));
    copy
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("s0")).unwrap();
    for file in FILES {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

/// Recovers the files, and returns the numbers of the packets.
fn recover(folder: &Path) -> Result<(RecoveredTrace, Vec<u64>), RecoverError> {
    let path = folder.with_extension("pftrace");
    let _ = fs::remove_file(&path);
    let recovered = Leftover::open(folder)?.recover_session(0, &path)?;
    let bytes = fs::read(&path).unwrap();
    let packets = TraceDecoder::new(&bytes).packet();
    let number = |packet: Result<_, _>| {
        let packet: tracezero_core::protos::TracePacketDecoder<'_> = packet.unwrap();
        packet.for_testing().ok()??.counter().ok()?
    };
    Ok((recovered, packets.filter_map(number).collect()))
}

#[test]
fn sound_files_are_recovered_as_a_whole() {
    let folder = Folder::empty();
    let files = leave_files(folder.path());
    let (trace, numbers) = recover(&files).unwrap();
    assert_eq!(trace.damages, [] as [&str; 0]);
    assert!(numbers.into_iter().eq(0..u64::from(PACKETS)));
    assert_eq!(
        trace.lost_packets(),
        1,
        "the process was in the middle of it"
    );
}

#[test]
fn no_flipped_byte_makes_a_recovery_fail() {
    let folder = Folder::empty();
    let files = leave_files(folder.path());
    for file in FILES {
        let path = files.join(file);
        let sound = fs::read(&path).unwrap();
        // Every byte of headers, and some of what follows.
        let places = (0..sound.len()).filter(|at| *at < 256 || at % 61 == 0);
        let places =
            places.chain((HEADER_BYTES..HEADER_BYTES + 200).filter(|at| *at < sound.len()));
        for at in places {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x55;
            fs::write(&path, &damaged).unwrap();
            match recover(&files) {
                // At most the packet of the damaged slot is gone, or all of a damaged header.
                Ok((trace, numbers)) => assert!(
                    numbers.len() + 1 >= PACKETS as usize || !trace.damages.is_empty(),
                    "{file}, byte {at}: {numbers:?}"
                ),
                Err(RecoverError::NotCrashFiles { .. }) => assert_eq!(file, "meta"),
                Err(error) => panic!("{file}, byte {at}: {error}"),
            }
        }
        fs::write(&path, sound).unwrap();
    }
}

#[test]
fn files_may_be_cut_off_or_missing() {
    let folder = Folder::empty();
    let files = leave_files(folder.path());
    for file in FILES {
        let path = files.join(file);
        let sound = fs::read(&path).unwrap();
        for len in [0, 1, 100, 4095, 4096, 4097, 5000, 8191] {
            fs::write(&path, &sound[..len.min(sound.len())]).unwrap();
            if let Err(error) = recover(&files) {
                assert!(
                    matches!(error, RecoverError::NotCrashFiles { .. }),
                    "{file}: {error}"
                );
            }
        }
        fs::remove_file(&path).unwrap();
        match recover(&files) {
            Ok((trace, _)) => assert!(!trace.damages.is_empty() || file == "s0/b0.0"),
            Err(error) => assert!(matches!(error, RecoverError::Io { .. }), "{file}: {error}"),
        }
        fs::write(&path, sound).unwrap();
    }
}

#[test]
fn files_of_another_process_are_not_taken() {
    let (folder, other) = (Folder::empty(), Folder::empty());
    let (files, foreign) = (leave_files(folder.path()), leave_files(other.path()));
    fs::copy(foreign.join("s0/b0.0"), files.join("s0/b0.0")).unwrap();
    let (trace, numbers) = recover(&files).unwrap();
    assert_eq!(numbers, []);
    assert_eq!(trace.damages, ["b0.0: the header is damaged"]);
}
