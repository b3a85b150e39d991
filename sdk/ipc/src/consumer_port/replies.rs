//! The replies of a daemon to its consumers.
//!
//! A function encodes the reply for the daemon, and one with the prefix `decode_` reads it for the
//! consumer. The names are those of what has happened, and the function's text names the method.

use protozero::DecodeError;

use super::cut;
use super::events::ObservedEvents;
use crate::protos::{
    AttachResponse, AttachResponseDecoder, CloneSessionResponse, CloneSessionResponseDecoder,
    EnableTracingResponse, EnableTracingResponseDecoder, GetTraceStatsResponse,
    GetTraceStatsResponseDecoder, QueryCapabilitiesResponse, QueryCapabilitiesResponseDecoder,
    SaveTraceForBugreportResponse, TracezeroPacketTotalsResponse,
    TracezeroPacketTotalsResponseDecoder, TracingServiceCapabilities,
    TracingServiceCapabilitiesDecoder,
};
use crate::wire::encoded;

/// Encodes the reply to `EnableTracing`: the session has ended, or never begun, for this reason if there
/// is one.
#[must_use]
pub fn tracing_disabled(error: Option<&str>) -> Vec<u8> {
    encoded::<EnableTracingResponse<'_>>(|out| {
        out.set_disabled(true);
        if let Some(error) = error {
            out.set_error(cut(error));
        }
    })
}

/// Returns the reason for which a session has ended or never begun; `None` if it ended as planned.
///
/// # Errors
///
/// If the reply is malformed.
pub fn decode_tracing_disabled(reply: &[u8]) -> Result<Option<&str>, DecodeError> {
    let error = EnableTracingResponseDecoder::new(reply).error()?;
    Ok(error.filter(|error| !error.is_empty()))
}

/// Encodes the reply to `Attach`, with the configuration of the session, a `TraceConfig`.
///
/// The reply is a few bytes longer than the configuration. The caller must not send it if it is longer
/// than [`REPLY_MAX_BYTES`](super::REPLY_MAX_BYTES).
#[must_use]
pub fn attached(config: &[u8]) -> Vec<u8> {
    encoded::<AttachResponse<'_>>(|out| {
        out.set_trace_config(config);
    })
}

/// Returns the configuration of the session that the consumer has attached to, a `TraceConfig`.
///
/// # Errors
///
/// If the reply is malformed.
pub fn decode_attached(reply: &[u8]) -> Result<&[u8], DecodeError> {
    let config = AttachResponseDecoder::new(reply).trace_config()?;
    Ok(config.unwrap_or_default())
}

/// Encodes the reply to `GetTraceStats`, with a `TraceStats`.
///
/// The reply is a few bytes longer than the statistics. The caller must not send it if it is longer than
/// [`REPLY_MAX_BYTES`](super::REPLY_MAX_BYTES).
#[must_use]
pub fn trace_stats(stats: &[u8]) -> Vec<u8> {
    encoded::<GetTraceStatsResponse<'_>>(|out| {
        out.set_trace_stats(stats);
    })
}

/// Returns the statistics of the session, a `TraceStats`.
///
/// # Errors
///
/// If the reply is malformed.
pub fn decode_trace_stats(reply: &[u8]) -> Result<&[u8], DecodeError> {
    let stats = GetTraceStatsResponseDecoder::new(reply).trace_stats()?;
    Ok(stats.unwrap_or_default())
}

/// Packet counts of a session so far, over all sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketTotals {
    /// Packets that writers have begun.
    pub begun: u64,
    /// Packets that were lost, for whatever cause.
    pub lost: u64,
    /// Track events in the trace, as far as it was read or written into the file.
    pub events: u64,
    /// Packets of other data sources, likewise.
    pub data_packets: u64,
}

/// Encodes the reply to `TracezeroPacketTotals`.
#[must_use]
pub fn packet_totals(counts: PacketTotals) -> Vec<u8> {
    encoded::<TracezeroPacketTotalsResponse<'_>>(|out| {
        out.set_packets_begun(counts.begun);
        out.set_packets_lost(counts.lost);
        out.set_events(counts.events);
        out.set_data_packets(counts.data_packets);
    })
}

/// Returns the counts of a session's packets.
///
/// # Errors
///
/// If the reply is malformed.
pub fn decode_packet_totals(reply: &[u8]) -> Result<PacketTotals, DecodeError> {
    let counts = TracezeroPacketTotalsResponseDecoder::new(reply);
    Ok(PacketTotals {
        begun: counts.packets_begun()?.unwrap_or_default(),
        lost: counts.packets_lost()?.unwrap_or_default(),
        events: counts.events()?.unwrap_or_default(),
        data_packets: counts.data_packets()?.unwrap_or_default(),
    })
}

/// The capabilities of a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The kinds of events that consumers can observe.
    pub events: ObservedEvents,
    /// True if the daemon creates trace files by their path.
    pub has_output_path: bool,
    /// True if the daemon clones sessions.
    pub has_clone_session: bool,
}

/// Encodes the reply to `QueryCapabilities`.
#[must_use]
pub fn capabilities(capabilities: &Capabilities) -> Vec<u8> {
    encoded::<QueryCapabilitiesResponse<'_>>(|out| {
        out.capabilities(|out: &mut TracingServiceCapabilities<'_>| {
            out.set_has_query_capabilities(true);
            for event in capabilities.events.types() {
                out.add_observable_events(event);
            }
            out.set_has_trace_config_output_path(capabilities.has_output_path);
            out.set_has_clone_session(capabilities.has_clone_session);
        });
    })
}

/// Returns what the daemon can do.
///
/// # Errors
///
/// If the reply is malformed.
pub fn decode_capabilities(reply: &[u8]) -> Result<Capabilities, DecodeError> {
    let capabilities = QueryCapabilitiesResponseDecoder::new(reply).capabilities()?;
    let capabilities = capabilities.unwrap_or_else(|| TracingServiceCapabilitiesDecoder::new(&[]));
    Ok(Capabilities {
        events: ObservedEvents::decode(capabilities.observable_events())?,
        has_output_path: capabilities
            .has_trace_config_output_path()?
            .unwrap_or_default(),
        has_clone_session: capabilities.has_clone_session()?.unwrap_or_default(),
    })
}

/// A clone that belongs to the consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cloned {
    /// The id of the trace: the upper and the lower half.
    pub uuid: (i64, i64),
    /// True if the daemon has written the clone into the file that the request came with.
    pub was_written_into_file: bool,
}

/// Encodes the reply to `CloneSession`: the clone, or the reason why there is none.
#[must_use]
pub fn cloned(outcome: Result<Cloned, &str>) -> Vec<u8> {
    encoded::<CloneSessionResponse<'_>>(|out| match outcome {
        Ok(clone) => {
            out.set_success(true);
            out.set_uuid_msb(clone.uuid.0);
            out.set_uuid_lsb(clone.uuid.1);
            out.set_was_write_into_file(clone.was_written_into_file);
        }
        Err(error) => {
            out.set_success(false);
            out.set_error(cut(error));
        }
    })
}

/// Returns the clone, or the reason why there is none.
///
/// # Errors
///
/// If the reply is malformed.
pub fn decode_cloned(reply: &[u8]) -> Result<Result<Cloned, &str>, DecodeError> {
    let reply = CloneSessionResponseDecoder::new(reply);
    if !reply.success()?.unwrap_or_default() {
        return Ok(Err(reply.error()?.unwrap_or_default()));
    }
    let (upper, lower) = (reply.uuid_msb()?, reply.uuid_lsb()?);
    Ok(Ok(Cloned {
        uuid: (upper.unwrap_or_default(), lower.unwrap_or_default()),
        was_written_into_file: reply.was_write_into_file()?.unwrap_or_default(),
    }))
}

/// Encodes the reply to `SaveTraceForBugreport`: the reason why the daemon refuses. Consumers clone
/// instead, so none reads it.
#[must_use]
pub fn saved_for_bugreport(error: &str) -> Vec<u8> {
    encoded::<SaveTraceForBugreportResponse<'_>>(|out| {
        out.set_success(false);
        out.set_msg(cut(error));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer_port::REPLY_MAX_BYTES;

    const CLONED: Cloned = Cloned {
        uuid: (1, -1),
        was_written_into_file: true,
    };

    const CAPABILITIES: Capabilities = Capabilities {
        events: ObservedEvents {
            instances: true,
            all_started: false,
            clone_triggers: true,
        },
        has_output_path: false,
        has_clone_session: true,
    };

    const COUNTS: PacketTotals = PacketTotals {
        begun: 7,
        lost: 2,
        events: 4,
        data_packets: 1,
    };

    #[test]
    fn replies_have_their_bytes() {
        let minus_one = b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let golden: [(Vec<u8>, &[u8]); 9] = [
            (tracing_disabled(None), b"\x08\x01"),
            (tracing_disabled(Some("no")), b"\x08\x01\x1a\x02no"),
            (attached(&[0x18, 7]), b"\x0a\x02\x18\x07"),
            (trace_stats(&[0x18, 7]), b"\x0a\x02\x18\x07"),
            (
                capabilities(&CAPABILITIES),
                b"\x0a\x0a\x08\x01\x10\x01\x10\x04\x18\x00\x20\x01",
            ),
            (
                cloned(Ok(CLONED)),
                &[b"\x08\x01\x18\x01", &minus_one[..], b"\x28\x01"].concat(),
            ),
            (cloned(Err("no")), b"\x08\x00\x12\x02no"),
            (saved_for_bugreport("no"), b"\x08\x00\x12\x02no"),
            (packet_totals(COUNTS), b"\x08\x07\x10\x02\x18\x04\x20\x01"),
        ];
        for (reply, bytes) in golden {
            assert_eq!(reply, bytes);
        }
    }

    #[test]
    fn a_consumer_reads_what_the_daemon_replied() {
        for error in [None, Some("no")] {
            assert_eq!(decode_tracing_disabled(&tracing_disabled(error)), Ok(error));
        }
        assert_eq!(decode_attached(&attached(b"config")), Ok(&b"config"[..]));
        assert_eq!(
            decode_trace_stats(&trace_stats(b"stats")),
            Ok(&b"stats"[..])
        );
        let capabilities = capabilities(&CAPABILITIES);
        assert_eq!(decode_capabilities(&capabilities), Ok(CAPABILITIES));
        assert_eq!(decode_packet_totals(&packet_totals(COUNTS)), Ok(COUNTS));
        for outcome in [Ok(CLONED), Err("no")] {
            assert_eq!(decode_cloned(&cloned(outcome)), Ok(outcome));
        }
    }

    #[test]
    fn empty_replies_have_defaults() {
        assert_eq!(decode_tracing_disabled(&[]), Ok(None));
        assert_eq!(decode_attached(&[]), Ok(&[][..]));
        assert_eq!(decode_capabilities(&[]), Ok(Capabilities::default()));
        assert_eq!(decode_cloned(&[]), Ok(Err("")));
    }

    #[test]
    fn texts_of_any_length_fit_a_reply() {
        let text = "t".repeat(1024 * 1024);
        for reply in [
            tracing_disabled(Some(&text)),
            cloned(Err(&text)),
            saved_for_bugreport(&text),
        ] {
            assert!(reply.len() <= REPLY_MAX_BYTES);
        }
    }

    #[test]
    fn malformed_replies_are_errors_or_values() {
        for reply in [
            tracing_disabled(Some("no")),
            attached(&[0x18, 7]),
            capabilities(&CAPABILITIES),
            cloned(Ok(CLONED)),
            cloned(Err("no")),
            packet_totals(COUNTS),
        ] {
            for len in 0..reply.len() {
                // The outcome depends on where the bytes end. None is a panic.
                let reply = &reply[..len];
                let _ = decode_tracing_disabled(reply);
                let _ = decode_attached(reply);
                let _ = decode_trace_stats(reply);
                let _ = decode_capabilities(reply);
                let _ = decode_cloned(reply);
                let _ = decode_packet_totals(reply);
            }
        }
        let cut_off = [0x0a, 2, 1];
        assert!(decode_attached(&cut_off).is_err());
        assert!(decode_trace_stats(&cut_off).is_err());
        assert!(decode_capabilities(&cut_off).is_err());
        assert!(decode_cloned(&cut_off).is_err());
        assert!(decode_tracing_disabled(&cut_off).is_err());
    }
}
