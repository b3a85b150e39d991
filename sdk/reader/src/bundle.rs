//! Bundles: packets that hold many other packets, compressed.

use std::io;
use std::ops::Range;

use protozero::{Decoder, Value};

use crate::fields;

/// The maximum size of the packets of a bundle, unpacked.
#[cfg(any(feature = "deflate", feature = "zstd"))]
const UNPACKED_MAX_BYTES: u64 = 128 << 20;
/// In packets shorter than this, only the first field is examined: the packet of a bundle usually
/// has no other field.
const LOOKED_THROUGH_BYTES: usize = 128;

/// A bundle of compressed packets.
#[derive(Clone, Debug)]
pub(super) struct FoundBundle {
    codec: Codec,
    /// The position of the compressed bytes in the packet.
    range: Range<usize>,
}

/// A compression format.
#[derive(Clone, Copy, Debug)]
struct Codec {
    /// The feature of this crate that supports the format.
    feature: &'static str,
    /// The function that appends the unpacked bytes to a vector. `None` in a build without the
    /// feature.
    unpack: Option<Unpack>,
}

type Unpack = fn(&[u8], &mut Vec<u8>) -> io::Result<()>;

/// The format that is also called zlib.
const DEFLATE: Codec = Codec {
    feature: "deflate",
    #[cfg(feature = "deflate")]
    unpack: Some(inflate),
    #[cfg(not(feature = "deflate"))]
    unpack: None,
};

const ZSTD: Codec = Codec {
    feature: "zstd",
    #[cfg(feature = "zstd")]
    unpack: Some(unzstd),
    #[cfg(not(feature = "zstd"))]
    unpack: None,
};

/// Returns the bundle in a packet, if the packet is one.
#[inline]
pub(super) fn find(packet: &[u8]) -> Option<FoundBundle> {
    // The tags of `compressed_packets` and `zstd_compressed_packets`.
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
            fields::COMPRESSED_PACKETS => DEFLATE,
            fields::ZSTD_COMPRESSED_PACKETS => ZSTD,
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
    /// Unpacks the bundle in `packet` and appends its packets to `out`. The inner error is the
    /// decompressor's. The outer error is the name of the feature that this build lacks.
    pub(super) fn unpack(
        &self,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<io::Result<()>, &'static str> {
        let unpack = self.codec.unpack.ok_or(self.codec.feature)?;
        Ok(unpack(&packet[self.range.clone()], out))
    }
}

#[cfg(feature = "deflate")]
fn inflate(compressed: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    read_bounded(flate2::read::ZlibDecoder::new(compressed), out)
}

#[cfg(feature = "zstd")]
fn unzstd(compressed: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    read_bounded(zstd::stream::read::Decoder::with_buffer(compressed)?, out)
}

#[cfg(any(feature = "deflate", feature = "zstd"))]
fn read_bounded(decoder: impl io::Read, out: &mut Vec<u8>) -> io::Result<()> {
    use std::io::Read as _;

    let read_bytes = decoder.take(UNPACKED_MAX_BYTES + 1).read_to_end(out)?;
    if read_bytes as u64 > UNPACKED_MAX_BYTES {
        let text = format!("they contain more than {UNPACKED_MAX_BYTES} bytes");
        return Err(io::Error::other(text));
    }
    Ok(())
}
