//! Fuzzes the recovery of crash files. The files of a killed process are changed: bytes, sizes and
//! whole files, and headers with other content but sound checks. The recovery must write a trace of
//! whole packets, count them right, and end without a panic.
#![no_main]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use protozero::HeapBuffered;
use support::Folder;
use support::crash_files::{FILES, leave_crash_files};
use tracezero_core::crash_files::format::{
    HEADER_BYTES, Meta, Output, Place, ROW_BYTES, RingHeader, SLOT_HEADER_BYTES, SlotHeader,
    SlotKind, SlotState, WriterRow, ring_words,
};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::protos::sequences::TracePacketExt as _;
use tracezero_core::protos::{Trace, TraceDecoder};
use tracezero_core::shm::ChunkFlags;
use tracezero_crash::{Leftover, LivingProcess, RecoverError};

const RING: usize = 3;
/// More changes than this make inputs slow, and find nothing new.
const CHANGES_MAX: usize = 32;
/// A file never grows beyond this.
const FILE_MAX_BYTES: usize = 1 << 18;

#[derive(Arbitrary, Debug)]
enum Change {
    Bytes {
        file: u8,
        at: u16,
        bytes: Vec<u8>,
    },
    Word {
        file: u8,
        index: u16,
        value: u64,
    },
    Cut {
        file: u8,
        len: u16,
    },
    Remove {
        file: u8,
    },
    Swap {
        one: u8,
        other: u8,
    },
    /// A sound header with other sizes.
    Meta {
        memory_size_bytes: u32,
        page_size_bytes: u32,
        name: String,
    },
    /// A sound header of the ring.
    Ring {
        segment_bytes: u32,
        buffer_index: u32,
        generation: u32,
    },
    Place {
        offset_bytes: u32,
        size_bytes: u32,
    },
    Writer {
        row: u8,
        writer_id: Option<u8>,
        buffer: u8,
        is_living: bool,
        counts: [u64; 4],
    },
    /// A sound slot.
    Slot {
        index: u16,
        chunk_id: i8,
        writer_id: u8,
        reserved_bytes: u16,
        payload_bytes: u16,
        flags: u8,
        is_incomplete: bool,
        is_aborted: bool,
        payload: Vec<u8>,
    },
    /// A part of the trace that was written before: positions of writers, then any bytes.
    Part {
        is_streamed: bool,
        positions: Vec<Position>,
        rest: Vec<u8>,
    },
}

#[derive(Arbitrary, Debug)]
struct Position {
    buffer: u8,
    writer_id: u8,
    sequence_id: u32,
    chunk_id: i8,
    chunk_bytes: u32,
    read: u64,
}

/// A folder with sound files, which is used for all inputs.
struct Sound {
    folder: Folder,
    path: PathBuf,
    files: [Vec<u8>; FILES.len()],
    meta: Meta,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let folder = Folder::empty();
    let path = leave_crash_files(folder.path());
    let files = FILES.map(|file| fs::read(path.join(file)).expect("it was just written"));
    let meta = Meta::decode(&files[0]).expect("it is sound");
    Sound {
        folder,
        path,
        files,
        meta,
    }
});

/// The files of one input; `None` if the file is missing.
struct Files<'a> {
    sound: &'a Sound,
    files: [Option<Vec<u8>>; FILES.len()],
    part: Option<(bool, Vec<u8>)>,
}

fuzz_target!(|changes: Vec<Change>| {
    let sound = &*SOUND;
    let mut files = Files {
        sound,
        files: sound.files.clone().map(Some),
        part: None,
    };
    for change in changes.iter().take(CHANGES_MAX) {
        files.apply(change);
    }
    files.write();
    recover(&sound.path, &sound.folder.file("recovered.pftrace"));
});

impl Files<'_> {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Bytes { file, at, bytes } => self.put(index(*file), (*at).into(), bytes),
            Change::Word {
                file,
                index: word,
                value,
            } => {
                self.put(index(*file), usize::from(*word) * 8, &value.to_le_bytes());
            }
            Change::Cut { file, len } => {
                if let Some(content) = &mut self.files[index(*file)] {
                    content.truncate((*len).into());
                }
            }
            Change::Remove { file } => self.files[index(*file)] = None,
            Change::Swap { one, other } => self.files.swap(index(*one), index(*other)),
            Change::Meta {
                memory_size_bytes,
                page_size_bytes,
                name,
            } => {
                let meta = Meta {
                    memory_size_bytes: *memory_size_bytes,
                    page_size_bytes: *page_size_bytes,
                    process_name: name.clone(),
                    ..self.sound.meta.clone()
                };
                self.put(0, 0, &meta.encode());
            }
            Change::Ring {
                segment_bytes,
                buffer_index,
                generation,
            } => {
                let header = RingHeader {
                    nonce: self.sound.meta.nonce,
                    segment_bytes: *segment_bytes,
                    buffer_index: *buffer_index,
                    generation: *generation,
                    discards: false,
                };
                // The header's words that change are not part of what is sealed.
                self.put(RING, 0, &header.encode()[..8 * ring_words::PLACE]);
            }
            Change::Place {
                offset_bytes,
                size_bytes,
            } => {
                let place = Place {
                    offset_bytes: *offset_bytes,
                    size_bytes: *size_bytes,
                };
                self.put(RING, 8 * ring_words::PLACE, &place.to_word().to_le_bytes());
            }
            Change::Writer {
                row,
                writer_id,
                buffer,
                is_living,
                counts,
            } => {
                let writer_id = writer_id.map(|id| WriterId(id.into()));
                let key = WriterRow::key_word(writer_id, BufferId((*buffer).into()), *is_living);
                let at = HEADER_BYTES + usize::from(*row) * ROW_BYTES;
                self.put(0, at, &key.to_le_bytes());
                let counts = counts.map(u64::to_le_bytes).concat();
                self.put(0, at + 8 * WriterRow::COUNTS_AT, &counts);
            }
            Change::Slot {
                index,
                chunk_id,
                writer_id,
                reserved_bytes,
                payload_bytes,
                flags,
                is_incomplete,
                is_aborted,
                payload,
            } => {
                let offset = usize::from(*index) * SLOT_HEADER_BYTES;
                let header = SlotHeader {
                    chunk_id: ChunkId(i32::from(*chunk_id) as u32),
                    writer_id: WriterId((*writer_id).into()),
                    reserved_bytes: *reserved_bytes,
                    state: SlotState {
                        payload_bytes: *payload_bytes,
                        flags: ChunkFlags::from_bits(*flags),
                        kind: SlotKind::Chunk {
                            is_incomplete: *is_incomplete,
                            is_aborted: *is_aborted,
                        },
                    },
                };
                let header = header.encode(offset as u32, self.sound.meta.nonce);
                let at = HEADER_BYTES + offset;
                self.put(RING, at, &header);
                self.put(RING, at + SLOT_HEADER_BYTES, payload);
            }
            Change::Part {
                is_streamed,
                positions,
                rest,
            } => {
                let mut bytes = positions_packet(positions);
                bytes.extend(rest);
                self.part = Some((*is_streamed, bytes));
            }
        }
    }

    /// Overwrites bytes of a file, which may become longer by that.
    fn put(&mut self, file: usize, at: usize, bytes: &[u8]) {
        let Some(content) = &mut self.files[file] else {
            return;
        };
        let end = at + bytes.len();
        if end > FILE_MAX_BYTES {
            return;
        }
        if content.len() < end {
            content.resize(end, 0);
        }
        content[at..end].copy_from_slice(bytes);
    }

    fn write(&self) {
        for (name, content) in FILES.iter().zip(&self.files) {
            write(&self.sound.path.join(name), content.as_deref());
        }
        let streamed = self.sound.folder.file("streamed.pftrace");
        let of_part = |is_output: bool| {
            let part = self.part.as_ref();
            part.filter(|part| part.0 == is_output).map(|part| &*part.1)
        };
        write(&streamed, of_part(true));
        let output = of_part(true).map(|_| output_file(&streamed));
        write(&self.sound.path.join("s0/output"), output.as_deref());
        write(&self.sound.path.join("s0/part0"), of_part(false));
    }
}

fn index(file: u8) -> usize {
    usize::from(file) % FILES.len()
}

/// Writes a file, or removes it.
fn write(path: &Path, content: Option<&[u8]>) {
    match content {
        Some(content) => fs::write(path, content).expect("a folder of our own"),
        None => {
            // The file need not exist.
            let _ = fs::remove_file(path);
        }
    }
}

fn output_file(path: &Path) -> Vec<u8> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(path).expect("it was just written");
    let output = Output {
        device: metadata.dev(),
        inode: metadata.ino(),
        path: path.to_owned(),
    };
    output.encode()
}

fn positions_packet(positions: &[Position]) -> Vec<u8> {
    let mut trace = HeapBuffered::<Trace<'_>>::new();
    trace.message().add_packet(|packet| {
        packet.read_positions(|out| {
            for position in positions {
                out.add_positions(|out| {
                    out.set_buffer(position.buffer.into());
                    out.set_writer_id(position.writer_id.into());
                    out.set_sequence_id(position.sequence_id);
                    out.set_chunk_id(i32::from(position.chunk_id) as u32);
                    out.set_chunk_bytes(position.chunk_bytes);
                    out.set_read(position.read);
                });
            }
        });
    });
    trace.to_vec()
}

/// Recovers the first session, and checks the trace. Before that, reads it as that of a living
/// process.
fn recover(folder: &Path, path: &Path) {
    if let Ok(process) = LivingProcess::open(folder) {
        let mut bytes = Vec::new();
        let mut trace = process.read_session(0).expect("its files can be read");
        trace
            .read_to_end(&mut bytes)
            .expect("its files can be read");
        assert_whole(&bytes);
    }
    let _ = fs::remove_file(path);
    let leftover = match Leftover::open(folder) {
        Ok(leftover) => leftover,
        Err(RecoverError::NotCrashFiles { .. } | RecoverError::Io { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let trace = leftover.recover_session(0, path).expect("there is room");
    let bytes = fs::read(path).expect("the trace");
    assert_eq!(trace.size_bytes, bytes.len() as u64);
    assert!(assert_whole(&bytes) >= trace.packets);
    for account in &trace.sequences {
        let lost = account.begun.checked_sub(account.read);
        assert!(lost.is_some(), "more was read than begun: {account:?}");
    }
}

/// Asserts that a trace has only whole packets. Returns their number.
fn assert_whole(trace: &[u8]) -> u64 {
    let packets = TraceDecoder::new(trace).packet();
    packets
        .map(|packet| packet.expect("a whole packet"))
        .count() as u64
}
