//! Tests whether bytes look like a packet. After damage, reading resumes at bytes that do.

use protozero::{Decoder, Field, Value};

use crate::fields;

/// The maximum number of fields of a packet. A packet has few: its payload, and what the service
/// adds.
const FIELDS_MAX: usize = 64;
/// The end of the range of field numbers of packets.
const FIELD_NUMBER_END: u32 = 2000;

/// Returns true if `bytes` look like a packet and not like a message inside a packet.
pub(super) fn is_plausible(bytes: &[u8]) -> bool {
    let mut is_anchored = false;
    for (index, field) in Decoder::new(bytes).fields().enumerate() {
        let Ok(field) = field else { return false };
        if index == FIELDS_MAX
            || field.number >= FIELD_NUMBER_END
            || !has_its_wire_type(field)
            || is_packet_in_packet(field)
        {
            return false;
        }
        is_anchored |= matches!(
            field.number,
            fields::TIMESTAMP
                | fields::SEQUENCE_ID
                | fields::COMPRESSED_PACKETS
                | fields::ZSTD_COMPRESSED_PACKETS
        );
    }
    is_anchored
}

/// Returns false if the schema gives the field another wire type. Returns true for fields not
/// listed here.
pub(super) const fn has_its_wire_type(field: Field<'_>) -> bool {
    match field.number {
        fields::TIMESTAMP
        | fields::TIMESTAMP_CLOCK_ID
        | fields::TRUSTED_UID
        | fields::SEQUENCE_ID
        | fields::TRUSTED_PID
        | fields::MACHINE_ID
        | fields::SEQUENCE_FLAGS
        | fields::INCREMENTAL_STATE_CLEARED
        | fields::PREVIOUS_PACKET_DROPPED
        | fields::FIRST_PACKET_ON_SEQUENCE => matches!(field.value, Value::Varint(_)),
        fields::FTRACE_EVENTS
        | fields::CLOCK_SNAPSHOT
        | fields::TRACK_EVENT
        | fields::INTERNED_DATA
        | fields::TRACE_ATTRIBUTES
        | fields::TRACE_CONFIG
        | fields::TRACE_STATS
        | fields::COMPRESSED_PACKETS
        | fields::TRACE_PACKET_DEFAULTS
        | fields::TRACK_DESCRIPTOR
        | fields::EXTENSION_DESCRIPTOR
        | fields::ZSTD_COMPRESSED_PACKETS => matches!(field.value, Value::Bytes(_)),
        _ => true,
    }
}

/// Returns true if a field of a packet is really the next packet, which a wrong length made part of
/// this one.
///
/// The tag before each packet in a file equals the tag of the field `ftrace_events` inside a
/// packet. A real `FtraceEventBundle` has the CPU in field 1, as a varint. In a packet, field 1 is
/// never a varint.
pub(super) fn is_packet_in_packet(field: Field<'_>) -> bool {
    /// `FtraceEventBundle.cpu`.
    const CPU: u32 = 1;
    match field.value {
        _ if field.number != fields::FTRACE_EVENTS => false,
        Value::Bytes(bundle) => {
            let mut inside = Decoder::new(bundle).fields().take(FIELDS_MAX);
            let is_cpu =
                |field: Field<'_>| field.number == CPU && matches!(field.value, Value::Varint(_));
            !bundle.is_empty() && !inside.any(|field| field.is_ok_and(is_cpu))
        }
        _ => true,
    }
}
