//! Reads packets of a trace with the SDK's own decoder.

use protozero::FrameReader;
use tracezero_core::protos::TraceDecoder;
use tracezero_core::protos::tracing_service_event::EventType;

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

/// Returns the producers and names of the data sources that have not started, as a trace says.
#[must_use]
pub fn not_started(trace: &[u8]) -> Vec<(String, String)> {
    let names = TraceDecoder::new(trace).packet().filter_map(|packet| {
        match packet.unwrap().service_event().unwrap()?.event_type() {
            Ok(Some(EventType::SlowStartingDataSources(names))) => Some(names),
            _ => None,
        }
    });
    let names = names.flat_map(|names| names.data_source().map(Result::unwrap));
    names
        .map(|it| {
            let producer = it.producer_name().unwrap().unwrap();
            let data_source = it.data_source_name().unwrap().unwrap();
            (producer.to_owned(), data_source.to_owned())
        })
        .collect()
}

/// Counts the packets of these sequences in a trace.
#[must_use]
pub fn packets_of(trace: &[u8], sequence_ids: &[u32]) -> u64 {
    let packets = TraceDecoder::new(trace).packet().map(Result::unwrap);
    let ids = packets.filter_map(|packet| packet.trusted_packet_sequence_id().unwrap());
    ids.filter(|id| sequence_ids.contains(id)).count() as u64
}
