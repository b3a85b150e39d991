//! Compression: a batch of packets becomes one packet, whose payload is again a trace.

use tracezero_config::Compression;
#[cfg(any(feature = "deflate", feature = "zstd"))]
use tracezero_core::protos;

/// Appends `packets`, which are framed, to `trace`. Without compression they are appended as they
/// are, otherwise as one packet.
pub(super) fn append_packed(compression: Compression, packets: &[u8], trace: &mut Vec<u8>) {
    match compression {
        #[cfg(feature = "deflate")]
        Compression::Deflate => {
            let compressed = deflate(packets);
            append_packet(trace, |packet| {
                packet.set_compressed_packets(&compressed);
            });
        }
        #[cfg(feature = "zstd")]
        Compression::Zstd { level } => match zstd::bulk::compress(packets, level) {
            Ok(compressed) => append_packet(trace, |packet| {
                packet.set_zstd_compressed_packets(&compressed);
            }),
            // Out of memory: append the packets without compression.
            Err(_) => trace.extend_from_slice(packets),
        },
        // No compression. Configurations that ask for a compression that is not compiled in were
        // refused earlier.
        _ => trace.extend_from_slice(packets),
    }
}

#[cfg(feature = "deflate")]
fn deflate(packets: &[u8]) -> Vec<u8> {
    use std::io::Write as _;

    // Level 6, as in Perfetto's own service.
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder
        .write_all(packets)
        .and_then(|()| encoder.finish())
        .expect("writing to memory does not fail")
}

#[cfg(any(feature = "deflate", feature = "zstd"))]
fn append_packet(trace: &mut Vec<u8>, write: impl FnOnce(&mut protos::TracePacket<'_>)) {
    let mut buffer = protozero::HeapBuffered::<protos::Trace<'_>>::new();
    buffer.message().add_packet(write);
    trace.extend_from_slice(&buffer.to_vec());
}
