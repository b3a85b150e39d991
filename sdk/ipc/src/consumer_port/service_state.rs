//! Replies to QueryServiceState: producers, data sources and sessions, in parts that fit frames.

use std::iter;

use protozero::DecodeError;

use super::{cut, join_pieces};
use crate::protos::{
    QueryServiceStateResponse, QueryServiceStateResponseDecoder, TracingServiceState,
};
use crate::wire::encoded;

/// The maximum size of the state in one reply, in bytes. A reply has a tag and a length before it, and
/// stays 128 bytes below the size of a frame.
const PART_MAX_BYTES: usize = 128 * 1024 - 128 - 8;

/// The state of a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceState<'a> {
    /// The connected producers.
    pub producers: &'a [ProducerState<'a>],
    /// The data sources that they offer.
    pub data_sources: &'a [DataSourceState<'a>],
    /// The sessions that the consumer may know of.
    pub sessions: &'a [SessionState<'a>],
    /// The number of all sessions.
    pub num_sessions: u32,
    /// The number of all sessions that are started.
    pub num_sessions_started: u32,
    /// The version of the daemon, for humans.
    pub tracing_service_version: &'a str,
}

/// A connected producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerState<'a> {
    /// The number of the producer.
    pub id: i32,
    /// The name.
    pub name: &'a str,
    /// The user of its process.
    pub uid: i32,
    /// The id of its process.
    pub pid: i32,
    /// The name and version of its library.
    pub sdk_version: &'a str,
}

/// A data source that a producer offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataSourceState<'a> {
    /// The `DataSourceDescriptor`, encoded.
    pub descriptor: &'a [u8],
    /// The number of its producer.
    pub producer_id: i32,
}

/// A session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionState<'a> {
    /// The number of the session.
    pub id: u64,
    /// The user of its consumer.
    pub consumer_uid: i32,
    /// The name of its state, for humans, such as `STARTED`.
    pub state: &'a str,
    /// True if it is started.
    pub is_started: bool,
    /// The unique name of its configuration; may be empty.
    pub unique_session_name: &'a str,
    /// The sizes of its buffers, in KiB.
    pub buffer_sizes_kib: &'a [u32],
    /// The duration of its configuration, in milliseconds; 0 for none.
    pub duration_ms: u32,
    /// The number of its instances of data sources.
    pub num_data_sources: u32,
    /// When it started, in nanoseconds of the clock `REALTIME`; 0 if it has not.
    pub start_realtime_ns: i64,
    /// The bug report score of its configuration; 0 for none.
    pub bugreport_score: i32,
    /// The name of its file in bug reports; may be empty.
    pub bugreport_filename: &'a str,
}

/// Encodes the replies to `QueryServiceState`, without producers and data sources if `sessions_only`.
/// Calls `each` with every reply, and true if more follow: at least once, at last with false.
///
/// Returns how many data sources and sessions are left out, because one of them alone would not fit a
/// frame: those with descriptors of nearly 128 KiB, or with so many buffers.
pub fn service_state(
    state: &ServiceState<'_>,
    sessions_only: bool,
    mut each: impl FnMut(&[u8], bool),
) -> usize {
    let (producers, data_sources) = if sessions_only {
        Default::default()
    } else {
        (state.producers, state.data_sources)
    };
    let pieces = iter::once_with(|| encoded_counts(state))
        .chain(state.sessions.iter().map(encoded_session))
        .chain(producers.iter().map(encoded_producer))
        .chain(data_sources.iter().map(encoded_data_source));
    join_pieces(pieces, PART_MAX_BYTES, |part, has_more| {
        let reply = encoded::<QueryServiceStateResponse<'_>>(|out| {
            out.set_service_state(part);
        });
        each(&reply, has_more);
    })
}

/// Returns the part of the state that a reply has, for a consumer. The parts of all replies, one after
/// the other, are a `TracingServiceState`.
///
/// # Errors
///
/// If the reply is malformed.
pub fn decode_service_state(reply: &[u8]) -> Result<&[u8], DecodeError> {
    let part = QueryServiceStateResponseDecoder::new(reply).service_state()?;
    Ok(part.unwrap_or_default())
}

fn encoded_counts(state: &ServiceState<'_>) -> Vec<u8> {
    let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    encoded::<TracingServiceState<'_>>(|out| {
        out.set_num_sessions(count(state.num_sessions));
        out.set_num_sessions_started(count(state.num_sessions_started));
        out.set_tracing_service_version(cut(state.tracing_service_version));
        out.set_supports_tracing_sessions(true);
    })
}

fn encoded_producer(producer: &ProducerState<'_>) -> Vec<u8> {
    encoded::<TracingServiceState<'_>>(|out| {
        out.add_producers(|out| {
            out.set_id(producer.id);
            out.set_name(cut(producer.name));
            out.set_uid(producer.uid);
            out.set_sdk_version(cut(producer.sdk_version));
            out.set_pid(producer.pid);
        });
    })
}

fn encoded_data_source(data_source: &DataSourceState<'_>) -> Vec<u8> {
    encoded::<TracingServiceState<'_>>(|out| {
        out.add_data_sources(|out| {
            out.set_ds_descriptor(data_source.descriptor);
            out.set_producer_id(data_source.producer_id);
        });
    })
}

fn encoded_session(session: &SessionState<'_>) -> Vec<u8> {
    encoded::<TracingServiceState<'_>>(|out| {
        out.add_tracing_sessions(|out| {
            out.set_id(session.id);
            out.set_consumer_uid(session.consumer_uid);
            out.set_state(cut(session.state));
            out.set_unique_session_name(cut(session.unique_session_name));
            for size_kib in session.buffer_sizes_kib {
                out.add_buffer_size_kb(*size_kib);
            }
            out.set_duration_ms(session.duration_ms);
            out.set_num_data_sources(session.num_data_sources);
            if session.start_realtime_ns != 0 {
                out.set_start_realtime_ns(session.start_realtime_ns);
            }
            if session.bugreport_score != 0 {
                out.set_bugreport_score(session.bugreport_score);
            }
            if !session.bugreport_filename.is_empty() {
                out.set_bugreport_filename(cut(session.bugreport_filename));
            }
            out.set_is_started(session.is_started);
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer_port::TEXT_MAX_BYTES;
    use crate::frame::FRAME_MAX_BYTES;
    use crate::protos::TracingServiceStateDecoder;
    use crate::wire::{Body, Frame};

    const PRODUCER: ProducerState<'_> = ProducerState {
        id: 1,
        name: "p",
        uid: 2,
        pid: 3,
        sdk_version: "v",
    };

    const SESSION: SessionState<'_> = SessionState {
        id: 1,
        consumer_uid: 2,
        state: "S",
        is_started: true,
        unique_session_name: "u",
        buffer_sizes_kib: &[4, 300],
        duration_ms: 5,
        num_data_sources: 6,
        start_realtime_ns: 7,
        bugreport_score: 8,
        bugreport_filename: "f",
    };

    const DATA_SOURCE: DataSourceState<'_> = DataSourceState {
        descriptor: b"\x0a\x01d",
        producer_id: 1,
    };

    const STATE: ServiceState<'_> = ServiceState {
        producers: &[PRODUCER],
        data_sources: &[DATA_SOURCE],
        sessions: &[SESSION],
        num_sessions: 2,
        num_sessions_started: 1,
        tracing_service_version: "t",
    };

    /// Returns the joined state, the number of its parts, and how many pieces are left out.
    fn joined(state: &ServiceState<'_>, sessions_only: bool) -> (Vec<u8>, usize, usize) {
        let (mut joined, mut parts, mut is_finished) = (Vec::new(), 0, false);
        let left_out = service_state(state, sessions_only, |reply, has_more| {
            assert!(!is_finished, "a reply after the last");
            assert!(reply.len() < 131_072 - 128);
            let mut stream = Vec::new();
            let request_id = u64::MAX;
            let body = Body::Reply {
                reply: Some(reply),
                has_more,
            };
            Frame { request_id, body }.append_to(&mut stream);
            assert!(stream.len() <= FRAME_MAX_BYTES);
            joined.extend_from_slice(decode_service_state(reply).unwrap());
            (parts, is_finished) = (parts + 1, !has_more);
        });
        assert!(is_finished, "no last reply");
        (joined, parts, left_out)
    }

    const COUNTS: &[u8] = b"\x18\x02\x20\x01\x2a\x01t\x38\x01";
    const SESSIONS: &[u8] =
        b"\x32\x1c\x08\x01\x10\x02\x1a\x01S\x22\x01u\x28\x04\x28\xac\x02\x30\x05\x38\x06\x40\x07\x48\x08\x52\x01f\x58\x01";

    #[test]
    fn the_state_has_its_bytes() {
        let producers = b"\x0a\x0c\x08\x01\x12\x01p\x18\x02\x22\x01v\x28\x03";
        let data_sources = b"\x12\x07\x0a\x03\x0a\x01d\x10\x01";
        let expected = [COUNTS, SESSIONS, producers, data_sources].concat();
        assert_eq!(joined(&STATE, false), (expected, 1, 0));
        let of_sessions = [COUNTS, SESSIONS].concat();
        assert_eq!(joined(&STATE, true), (of_sessions, 1, 0));
    }

    #[test]
    fn an_empty_state_has_one_reply() {
        let (joined, parts, left_out) = joined(&ServiceState::default(), false);
        assert_eq!(
            (joined.as_slice(), parts, left_out),
            (&b"\x18\x00\x20\x00\x2a\x00\x38\x01"[..], 1, 0)
        );
    }

    #[test]
    fn many_data_sources_are_split_into_parts() {
        let descriptor: Vec<u8> = (0..1024).map(|index| index as u8).collect();
        let data_source = |producer_id| DataSourceState {
            descriptor: &descriptor,
            producer_id,
        };
        let state = ServiceState {
            data_sources: &(0..2000).map(data_source).collect::<Vec<_>>(),
            producers: &[PRODUCER; 2000],
            ..STATE
        };
        let (joined, parts, left_out) = joined(&state, false);
        assert_eq!(left_out, 0);
        assert_eq!(
            parts,
            joined.len().div_ceil(PART_MAX_BYTES),
            "parts are full"
        );
        let decoded = TracingServiceStateDecoder::new(&joined);
        assert_eq!(decoded.producers().count(), 2000);
        assert_eq!(decoded.num_sessions(), Ok(Some(2)));
        let mut producer_ids = 0..2000;
        for data_source in decoded.data_sources().map(Result::unwrap) {
            assert_eq!(data_source.producer_id(), Ok(producer_ids.next()));
            assert_eq!(data_source.ds_descriptor(), Ok(Some(descriptor.as_slice())));
        }
        assert_eq!(producer_ids.next(), None);
    }

    #[test]
    fn what_does_not_fit_a_frame_is_cut_or_left_out() {
        let text = "t".repeat(128 * 1024);
        let large = |size_bytes| DataSourceState {
            descriptor: &text.as_bytes()[..size_bytes],
            producer_id: 1,
        };
        let producer = ProducerState {
            name: &text,
            sdk_version: &text,
            ..PRODUCER
        };
        let session = SessionState {
            state: &text,
            unique_session_name: &text,
            bugreport_filename: &text,
            ..SESSION
        };
        let state = ServiceState {
            producers: &[producer],
            data_sources: &[large(128 * 1024), large(PART_MAX_BYTES - 12), DATA_SOURCE],
            sessions: &[session; 15],
            tracing_service_version: &text,
            ..STATE
        };
        let (joined, _, left_out) = joined(&state, false);
        assert_eq!(left_out, 1);
        let decoded = TracingServiceStateDecoder::new(&joined);
        assert_eq!(decoded.data_sources().count(), 2);
        assert_eq!(decoded.tracing_sessions().count(), 15);
        let producer = decoded.producers().next().unwrap().unwrap();
        assert_eq!(producer.name(), Ok(Some(&text[..TEXT_MAX_BYTES])));
    }

    #[test]
    fn a_malformed_reply_is_an_error() {
        let mut reply = Vec::new();
        service_state(&STATE, true, |bytes, _| reply = bytes.to_vec());
        for len in 1..reply.len() {
            assert!(decode_service_state(&reply[..len]).is_err());
        }
    }
}
