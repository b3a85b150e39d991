//! Packets of a trace, by the SDK's own decoder.

use protozero::FrameReader;
use tracezero_core::protos::TraceDecoder;

/// Returns the counters of test events, in the order of the trace, which may still grow.
#[must_use]
pub fn numbers(trace: &[u8]) -> Vec<u64> {
    TraceDecoder::new(trace)
        .packet()
        .filter_map(|packet| packet.unwrap().for_testing().unwrap()?.counter().unwrap())
        .collect()
}

/// Returns whether a trace ends with a whole packet. A file that is being written may not.
#[must_use]
pub fn is_whole(trace: &[u8]) -> bool {
    let mut reader = FrameReader::new();
    assert!(reader.append(trace).all(|frame| frame.is_ok()));
    reader.finish().is_ok()
}
