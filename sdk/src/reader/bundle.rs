//! Compressed packets: one packet of the file that holds many.

use std::ops::Range;

use protozero::{Decoder, Value};

use super::fields;

/// Packets of a bundle, unpacked, take no more memory than this.
#[cfg(any(feature = "deflate", feature = "zstd"))]
const UNPACKED_MAX_BYTES: usize = 128 << 20;
/// In shorter packets only the first field is looked at: writers of bundles write no other.
const LOOKED_THROUGH_BYTES: usize = 128;

/// A bundle of compressed packets.
#[derive(Clone, Debug)]
pub(super) struct FoundBundle {
    codec: Codec,
    /// The compressed bytes in the packet.
    range: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Codec {
    /// Also called zlib.
    Deflate,
    Zstd,
}

/// Why there are no packets in a bundle.
#[derive(Debug)]
pub(super) enum UnpackError {
    NoDecompressor { feature: &'static str },
    Failed { reason: String },
}

/// The bundle that a packet is, if it is one.
#[inline]
pub(super) fn find(packet: &[u8]) -> Option<FoundBundle> {
    // The tags of the two fields.
    if let [0x92, 0x03, ..] | [0xaa, 0x08, ..] = packet {
        return find_field(packet);
    }
    if packet.len() < LOOKED_THROUGH_BYTES {
        return None;
    }
    find_field(packet)
}

#[cold]
#[inline(never)]
fn find_field(packet: &[u8]) -> Option<FoundBundle> {
    for field in Decoder::new(packet).fields() {
        let field = field.ok()?;
        let codec = match field.number {
            fields::COMPRESSED_PACKETS => Codec::Deflate,
            fields::ZSTD_COMPRESSED_PACKETS => Codec::Zstd,
            _ => continue,
        };
        if let Value::Bytes(compressed) = field.value {
            let start = compressed.as_ptr().addr() - packet.as_ptr().addr();
            return Some(FoundBundle {
                codec,
                range: start..start + compressed.len(),
            });
        }
    }
    None
}

impl FoundBundle {
    /// Appends the packets of the bundle in `packet` to `out`.
    pub(super) fn unpack(&self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), UnpackError> {
        let compressed = &packet[self.range.clone()];
        match self.codec {
            Codec::Deflate => inflate(compressed, out),
            Codec::Zstd => unzstd(compressed, out),
        }
    }
}

#[cfg(feature = "deflate")]
fn inflate(compressed: &[u8], out: &mut Vec<u8>) -> Result<(), UnpackError> {
    read_bounded(flate2::read::ZlibDecoder::new(compressed), out)
}

#[cfg(not(feature = "deflate"))]
fn inflate(_compressed: &[u8], _out: &mut Vec<u8>) -> Result<(), UnpackError> {
    Err(UnpackError::NoDecompressor { feature: "deflate" })
}

#[cfg(feature = "zstd")]
fn unzstd(compressed: &[u8], out: &mut Vec<u8>) -> Result<(), UnpackError> {
    let decoder = zstd::stream::read::Decoder::with_buffer(compressed).map_err(failed)?;
    read_bounded(decoder, out)
}

#[cfg(not(feature = "zstd"))]
fn unzstd(_compressed: &[u8], _out: &mut Vec<u8>) -> Result<(), UnpackError> {
    Err(UnpackError::NoDecompressor { feature: "zstd" })
}

#[cfg(any(feature = "deflate", feature = "zstd"))]
fn read_bounded(decoder: impl std::io::Read, out: &mut Vec<u8>) -> Result<(), UnpackError> {
    use std::io::Read as _;

    let limit = UNPACKED_MAX_BYTES as u64;
    let read_bytes = decoder.take(limit + 1).read_to_end(out).map_err(failed)?;
    if read_bytes as u64 > limit {
        return Err(UnpackError::Failed {
            reason: format!("there are more than {limit} bytes in them"),
        });
    }
    Ok(())
}

#[cfg(any(feature = "deflate", feature = "zstd"))]
fn failed(error: std::io::Error) -> UnpackError {
    UnpackError::Failed {
        reason: error.to_string(),
    }
}
