//! The part of a trace that was taken out of the buffers already: into the trace file, or
//! into parts that a flight recorder keeps.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tracezero_core::crash_files::format::COUNT_MAX;
use tracezero_core::crash_files::format::Output;
use tracezero_core::crash_files::{OUTPUT_FILE, PART_PREFIX};
use tracezero_core::ids::{ChunkId, WriterId};
use tracezero_core::protos::TracePacketDecoder;
use tracezero_core::protos::sequences::TracePacketDecoderExt as _;
use tracezero_service::recording_id;
use tracezero_service::trace_buffer::ReadPosition;

use crate::error::RecoverError;
use crate::folder::{entries, open_file, open_regular, read_file};

/// A packet with more bytes than this has no positions.
const POSITIONS_MAX_BYTES: u64 = 16 << 20;
/// The largest file that names a trace file. A path has at most 4096 bytes.
const OUTPUT_MAX_BYTES: u64 = 8192;
/// The first byte of a packet in a trace.
const PACKET_TAG: u8 = 0x0a;

/// The beginning of a trace: files, each up to the last positions in it that are whole.
#[derive(Debug, Default)]
pub(crate) struct TracePart {
    files: Vec<(File, u64)>,
    /// For each buffer and writer, the id of its sequence in the trace and its last position.
    pub(crate) positions: HashMap<(u32, WriterId), (u32, ReadPosition)>,
    /// The id of the recording.
    recording_id: u64,
    /// True if the part has the packets that a trace begins with.
    pub(crate) has_begun: bool,
    /// True if a session has streamed into a trace file.
    pub(crate) is_streamed: bool,
}

impl TracePart {
    /// Finds the trace file of a session, or the parts that a flight recorder has taken. Reports
    /// what is wrong with them.
    pub(crate) fn find(
        folder: &Path,
        preamble: &[u8],
        damages: &mut Vec<String>,
    ) -> Result<Self, RecoverError> {
        let mut part = Self {
            recording_id: recording_id(preamble),
            ..Self::default()
        };
        for path in part_files(folder)? {
            let file = open_file(&path, OpenOptions::new().read(true));
            let read = file.and_then(|file| part.add(file));
            read.unwrap_or_else(|error| damages.push(format!("{}: {error}", path.display())));
        }
        if let Ok(output) = read_file(&folder.join(OUTPUT_FILE), OUTPUT_MAX_BYTES) {
            match Output::decode(&output) {
                Some(output) => part.add_output(&output).unwrap_or_else(|error| {
                    damages.push(format!("{}: {error}", output.path.display()));
                }),
                None => damages.push(format!("{OUTPUT_FILE} is damaged")),
            }
        }
        Ok(part)
    }

    /// Adds the trace file that a session has streamed into.
    fn add_output(&mut self, output: &Output) -> io::Result<()> {
        // The user chose this path, which may be a link. If it is a pipe, its reader has got the
        // packets.
        let file = open_regular(&output.path, OpenOptions::new().read(true), OFlags::empty())?;
        let metadata = file.metadata()?;
        if (metadata.dev(), metadata.ino()) != (output.device, output.inode) {
            return Err(io::Error::other("the trace file was replaced"));
        }
        self.is_streamed = true;
        self.add(file)
    }

    fn add(&mut self, file: File) -> io::Result<()> {
        // A living process may write to the file faster than this reads it.
        let present = (&file).take(file.metadata()?.len());
        let mut packets = Packets {
            input: BufReader::with_capacity(1 << 20, present),
            offset_bytes: 0,
        };
        let mut packet = Vec::new();
        let (mut len_bytes, mut is_begin) = (0, false);
        while packets.read(&mut packet)? {
            let boundary = TracePacketDecoder::new(&packet).recording_boundary();
            if let Ok(Some(boundary)) = boundary {
                if boundary.recording_id() != Ok(Some(self.recording_id)) {
                    return Err(io::Error::other("another recording has replaced the trace"));
                }
                is_begin = true;
            }
            if self.note(&packet) {
                len_bytes = packets.offset_bytes;
                self.has_begun |= is_begin;
            }
        }
        self.files.push((file, len_bytes));
        Ok(())
    }

    /// Notes the positions in a packet. Returns false if it has none.
    fn note(&mut self, packet: &[u8]) -> bool {
        let packet = TracePacketDecoder::new(packet);
        let Ok(Some(positions)) = packet.read_positions() else {
            return false;
        };
        for position in positions.positions().flatten() {
            let number = |field: Result<Option<u32>, _>| field.ok().flatten().unwrap_or(0);
            let writer_id = WriterId(number(position.writer_id()) as u16);
            let read_position = ReadPosition {
                chunk_id: ChunkId(number(position.chunk_id())),
                chunk_bytes: number(position.chunk_bytes()) as u16,
                read: position.read().ok().flatten().unwrap_or(0).min(COUNT_MAX),
            };
            self.positions.insert(
                (number(position.buffer()), writer_id),
                (number(position.sequence_id()), read_position),
            );
        }
        true
    }

    /// Takes the files, each to be read from its begin up to what belongs to the trace.
    pub(crate) fn take_files(&mut self) -> io::Result<Vec<io::Take<File>>> {
        let rewound = |(mut file, len_bytes): (File, u64)| {
            file.seek(SeekFrom::Start(0))?;
            Ok(file.take(len_bytes))
        };
        self.files.drain(..).map(rewound).collect()
    }
}

/// Returns the files of parts, oldest first.
fn part_files(folder: &Path) -> Result<Vec<PathBuf>, RecoverError> {
    let number = |path: &Path| -> Option<u32> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(PART_PREFIX)?.parse().ok()
    };
    let mut files = entries(folder)?;
    files.retain(|path| number(path).is_some());
    files.sort_by_key(|path| number(path));
    Ok(files)
}

/// Reads a trace packet by packet.
struct Packets<R> {
    input: BufReader<R>,
    /// The end of the last packet.
    offset_bytes: u64,
}

impl<R: io::Read> Packets<R> {
    /// Reads a packet, or skips it and leaves `packet` empty if it is too large to have positions.
    /// Returns false at the end of what is whole.
    fn read(&mut self, packet: &mut Vec<u8>) -> io::Result<bool> {
        packet.clear();
        if self.byte()? != Some(PACKET_TAG) {
            return Ok(false);
        }
        let mut len_bytes = 0;
        let mut header_bytes = 1;
        loop {
            let Some(byte) = self.byte()? else {
                return Ok(false);
            };
            len_bytes |= u64::from(byte & 0x7f) << (7 * (header_bytes - 1));
            header_bytes += 1;
            if byte & 0x80 == 0 {
                break;
            }
            if header_bytes > 5 {
                return Ok(false);
            }
        }
        let mut content = (&mut self.input).take(len_bytes);
        let read_bytes = if len_bytes <= POSITIONS_MAX_BYTES {
            content.read_to_end(packet)? as u64
        } else {
            io::copy(&mut content, &mut io::sink())?
        };
        self.offset_bytes += header_bytes + read_bytes;
        Ok(read_bytes == len_bytes)
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        match self.input.read(&mut byte)? {
            0 => Ok(None),
            _ => Ok(Some(byte[0])),
        }
    }
}
