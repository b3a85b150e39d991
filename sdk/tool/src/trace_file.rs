//! Writes packets to a trace file, compressed if asked for.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use protozero::{VARINT_MAX_BYTES, encode_varint};

use crate::error::ToolError;
use crate::output::OutputFile;

/// The field `packet` of a trace.
const PACKET: u32 = 1;
/// The fields of a packet that hold compressed packets.
const COMPRESSED_PACKETS: u32 = 50;
const ZSTD_COMPRESSED_PACKETS: u32 = 133;
/// The approximate size of the packets that are compressed together. A larger bundle would hardly
/// compress better.
const BUNDLE_BYTES: usize = 512 * 1024;

/// The way in which packets are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Deflate { level: u32 },
    Zstd { level: i32 },
}

/// Writes packets to a trace file.
#[derive(Debug)]
pub(crate) struct TraceFile {
    out: OutputFile,
    packing: Packing,
    /// The packets, with tags and lengths, that are to be compressed together.
    bundle: Vec<u8>,
    packets: u64,
}

impl TraceFile {
    pub(crate) fn new(out: OutputFile, packing: Packing) -> Self {
        Self {
            out,
            packing,
            bundle: Vec::new(),
            packets: 0,
        }
    }

    /// Returns the number of packets written so far.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Writes a packet, and its tag and length before it.
    pub(crate) fn write(&mut self, packet: &[u8]) -> Result<(), ToolError> {
        let mut memory = [0; FIELD_HEADER_MAX_BYTES];
        let header = field_header(PACKET, packet.len(), &mut memory);
        self.write_parts([header, packet])
    }

    /// Writes a packet that comes with its tag and length.
    pub(crate) fn write_frame(&mut self, frame: &[u8]) -> Result<(), ToolError> {
        self.write_parts([frame])
    }

    /// Writes a packet whose bytes are in several places.
    fn write_parts<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<(), ToolError> {
        self.packets += 1;
        if self.packing == Packing::Plain {
            let written = parts.iter().try_for_each(|part| self.out.write_all(part));
            return written.map_err(|error| self.out.failed(error));
        }
        let packet_bytes: usize = parts.iter().map(|part| part.len()).sum();
        if !self.bundle.is_empty() && self.bundle.len() + packet_bytes > BUNDLE_BYTES {
            self.write_bundle()?;
        }
        for part in parts {
            self.bundle.extend_from_slice(part);
        }
        Ok(())
    }

    /// Completes the file. Returns its size in bytes.
    pub(crate) fn finish(mut self) -> Result<u64, ToolError> {
        if !self.bundle.is_empty() {
            self.write_bundle()?;
        }
        self.out.finish()
    }

    #[cold]
    fn write_bundle(&mut self) -> Result<(), ToolError> {
        let written = pack(self.packing, &self.bundle).and_then(|(field, payload)| {
            // A bundle that compression does not shrink is written as it is: compressed, it could
            // be too long for a packet.
            if payload.len() >= self.bundle.len() {
                return self.out.write_all(&self.bundle);
            }
            let mut memory = [0; FIELD_HEADER_MAX_BYTES];
            let inner = field_header(field, payload.len(), &mut memory);
            let mut memory = [0; FIELD_HEADER_MAX_BYTES];
            let outer = field_header(PACKET, inner.len() + payload.len(), &mut memory);
            self.out.write_all(outer)?;
            self.out.write_all(inner)?;
            self.out.write_all(&payload)
        });
        self.bundle.clear();
        written.map_err(|error| self.out.failed(error))
    }
}

/// Compresses packets. Returns the field of a packet that holds them, and its bytes.
fn pack(packing: Packing, packets: &[u8]) -> io::Result<(u32, Vec<u8>)> {
    match packing {
        Packing::Plain => unreachable!("plain packets are written one by one"),
        Packing::Deflate { level } => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
            encoder.write_all(packets)?;
            Ok((COMPRESSED_PACKETS, encoder.finish()?))
        }
        Packing::Zstd { level } => {
            let payload = zstd::bulk::compress(packets, level)?;
            Ok((ZSTD_COMPRESSED_PACKETS, payload))
        }
    }
}

/// The maximum size of a field's tag (5 bytes) and length (10 bytes).
const FIELD_HEADER_MAX_BYTES: usize = 15;

/// Encodes the tag and length of a length-delimited field.
fn field_header(number: u32, len: usize, memory: &mut [u8; FIELD_HEADER_MAX_BYTES]) -> &[u8] {
    let mut end = 0;
    for value in [u64::from(number) << 3 | 2, len as u64] {
        let mut varint = [0; VARINT_MAX_BYTES];
        let varint_bytes = encode_varint(value, &mut varint);
        memory[end..end + varint_bytes].copy_from_slice(&varint[..varint_bytes]);
        end += varint_bytes;
    }
    &memory[..end]
}
