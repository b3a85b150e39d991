//! The part of a trace that a session had streamed into its file before the kill.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use tracezero_core::crash_files::OUTPUT_FILE;
use tracezero_core::crash_files::format::Output;
use tracezero_core::ids::{ChunkId, WriterId};
use tracezero_core::protos::TracePacketDecoder;
use tracezero_core::protos::sequences::TracePacketDecoderExt as _;
use tracezero_service::trace_buffer::ReadPosition;

/// A packet with more bytes than this has no positions.
const POSITIONS_MAX_BYTES: u64 = 16 << 20;
/// The first byte of a packet in a trace.
const PACKET_TAG: u8 = 0x0a;

/// The beginning of a trace, up to the last positions that are whole.
#[derive(Debug, Default)]
pub(crate) struct TracePart {
    file: Option<File>,
    len_bytes: u64,
    /// For each buffer and writer, the id of its sequence in the trace and its last position.
    pub(crate) positions: HashMap<(u32, WriterId), (u32, ReadPosition)>,
}

impl TracePart {
    /// Finds the trace file of a session. A session without one has an empty part. Reports what is
    /// wrong with the file.
    pub(crate) fn find(folder: &Path, damages: &mut Vec<String>) -> Self {
        let Ok(output) = std::fs::read(folder.join(OUTPUT_FILE)) else {
            return Self::default();
        };
        let Some(output) = Output::decode(&output) else {
            damages.push(format!("{OUTPUT_FILE} is damaged"));
            return Self::default();
        };
        Self::read(&output).unwrap_or_else(|error| {
            damages.push(format!("{}: {error}", output.path.display()));
            Self::default()
        })
    }

    fn read(output: &Output) -> io::Result<Self> {
        let metadata = std::fs::metadata(&output.path)?;
        if metadata.file_type().is_fifo() || metadata.file_type().is_socket() {
            // Whoever reads from it has got the packets.
            return Err(io::Error::other(
                "what went into a pipe cannot be read again",
            ));
        }
        let file = File::open(&output.path)?;
        let metadata = file.metadata()?;
        if (metadata.dev(), metadata.ino()) != (output.device, output.inode) {
            return Err(io::Error::other("the trace file was replaced"));
        }
        let mut part = Self::default();
        let mut packets = Packets {
            input: BufReader::with_capacity(1 << 20, &file),
            offset_bytes: 0,
        };
        let mut packet = Vec::new();
        while packets.read(&mut packet)? {
            if part.note(&packet) {
                part.len_bytes = packets.offset_bytes;
            }
        }
        part.file = Some(file);
        Ok(part)
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
                read: position.read().ok().flatten().unwrap_or(0),
            };
            self.positions.insert(
                (number(position.buffer()), writer_id),
                (number(position.sequence_id()), read_position),
            );
        }
        true
    }

    /// Copies the part to `out`. Returns its size.
    pub(crate) fn copy_to(&mut self, mut out: impl io::Write) -> io::Result<u64> {
        let Some(file) = &mut self.file else {
            return Ok(0);
        };
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file.take(self.len_bytes), &mut out)
    }
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
