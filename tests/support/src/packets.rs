//! Reads packets of a trace with the SDK's own decoder.

use protozero::FrameReader;
use tracezero_core::protos::TraceDecoder;

/// Returns the field `counter` of all test events, in the order of the trace. The trace may end in
/// the middle of a packet.
#[must_use]
pub fn numbers(trace: &[u8]) -> Vec<u64> {
    TraceDecoder::new(trace)
        .packet()
        .filter_map(|packet| packet.unwrap().for_testing().unwrap()?.counter().unwrap())
        .collect()
}

/// Returns true if the trace ends with a whole packet. A file that is still being written may not.
#[must_use]
pub fn is_whole(trace: &[u8]) -> bool {
    let mut reader = FrameReader::new();
    assert!(reader.append(trace).all(|frame| frame.is_ok()));
    reader.finish().is_ok()
}
