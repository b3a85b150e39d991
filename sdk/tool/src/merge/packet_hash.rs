//! Recognizes packets by their content.
//!
//! Two files may have the same packet of a process. The service has framed it for each of them: the
//! fields that the service adds differ, and all others are equal.

use std::hash::{DefaultHasher, Hasher};

use protozero::Decoder;
use tracezero_core::protos::TracePacket;
use tracezero_kernel::protos::{FtraceEventBundleDecoder, KernelPacket};
use tracezero_reader::Packet;

use super::clocks::SEQUENCE_CLOCKS;

/// The fields that the service adds.
const OF_SERVICE: [u32; 6] = [
    TracePacket::TRUSTED_UID_FIELD_NUMBER,
    TracePacket::TRUSTED_PACKET_SEQUENCE_ID_FIELD_NUMBER,
    TracePacket::PREVIOUS_PACKET_DROPPED_FIELD_NUMBER,
    TracePacket::TRUSTED_PID_FIELD_NUMBER,
    TracePacket::FIRST_PACKET_ON_SEQUENCE_FIELD_NUMBER,
    TracePacket::MACHINE_ID_FIELD_NUMBER,
];

/// Returns the time of a packet that can be recognized without the packets around it: its time does
/// not depend on them. Such a packet occurs once in a sequence as a rule, because no two have the
/// same time. Returns `None` for all other packets.
#[inline]
pub(super) fn anchor_time(packet: &Packet<'_>) -> Option<u64> {
    let head = &packet.head;
    if head.needs_state() {
        return None;
    }
    if head.payload_field == KernelPacket::FTRACE_EVENTS_FIELD_NUMBER {
        return bundle_time(packet.payload()?.bytes);
    }
    let clock_id = head.timestamp_clock_id.unwrap_or_default();
    head.timestamp
        .filter(|_| !SEQUENCE_CLOCKS.contains(&clock_id))
}

/// Returns a time in a bundle of the kernel's events. The bundle's packet has none of its own.
#[cold]
fn bundle_time(bundle: &[u8]) -> Option<u64> {
    let bundle = FtraceEventBundleDecoder::new(bundle);
    if let Some(event) = bundle.event().next() {
        return event.ok()?.timestamp().ok()?;
    }
    let compact = bundle.compact_sched().ok()??;
    let mut times = compact.switch_timestamp().chain(compact.waking_timestamp());
    times.next()?.ok()
}

/// Returns the hash of a packet without the fields that the service adds.
pub(super) fn hash(packet: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut fields = Decoder::new(packet).fields();
    // The fields of the service are the last as a rule, so all others are hashed in one piece.
    let mut unhashed = 0;
    loop {
        let start = fields.offset();
        let Some(Ok(field)) = fields.next() else {
            hasher.write(packet.get(unhashed..).unwrap_or_default());
            return hasher.finish();
        };
        if OF_SERVICE.contains(&field.number) {
            hasher.write(packet.get(unhashed..start).unwrap_or_default());
            unhashed = fields.offset();
        }
    }
}
