//! What a writer may put into a trace: whole fields, and none of those that only the service writes.
//!
//! Every packet is looked at once, on its way into the trace. Payloads are skipped, so the cost
//! grows with the number of top-level fields: a few per packet.

use crate::protos::TracePacket;

/// What a packet is to whoever counts packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketKind {
    /// Something that happened.
    Event,
    /// What is needed to read others.
    Description,
}

/// Messages, and so packets, are no larger (reference: the largest length of four bytes).
const PACKET_MAX_BYTES: usize = 0x0fff_ffff;
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;
/// Bytes of a varint of 64 bits.
const VARINT_MAX_BYTES: usize = 10;

/// What a packet of a writer is; `None` if it is malformed or pretends to be the service's.
pub(super) fn classify(packet: &[u8]) -> Option<PacketKind> {
    scan(packet, is_reserved)
}

/// What a packet is that has the service's fields as well.
pub(super) fn classify_framed(packet: &[u8]) -> Option<PacketKind> {
    scan(packet, |_| false)
}

#[inline]
fn scan(packet: &[u8], is_refused: impl Fn(u32) -> bool) -> Option<PacketKind> {
    if packet.len() > PACKET_MAX_BYTES {
        return None;
    }
    let mut kind = None;
    let mut rest = packet;
    while !rest.is_empty() {
        let tag = take_varint(&mut rest)?;
        let number = tag >> 3;
        if number == 0 || number > FIELD_NUMBER_MAX || is_refused(number as u32) {
            return None;
        }
        match tag & 7 {
            0 => {
                take_varint(&mut rest)?;
            }
            1 => rest = rest.get(8..)?,
            2 => {
                let len = take_varint(&mut rest)?;
                rest = rest.get(usize::try_from(len).ok()?..)?;
                // Data comes as a message; nothing else before it does, but defaults.
                if kind.is_none()
                    && number as u32 != TracePacket::TRACE_PACKET_DEFAULTS_FIELD_NUMBER
                {
                    kind = Some(kind_of_data(number as u32));
                }
            }
            5 => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(kind.unwrap_or(PacketKind::Description))
}

const fn kind_of_data(number: u32) -> PacketKind {
    match number {
        TracePacket::CLOCK_SNAPSHOT_FIELD_NUMBER | TracePacket::TRACK_DESCRIPTOR_FIELD_NUMBER => {
            PacketKind::Description
        }
        _ => PacketKind::Event,
    }
}

/// Whether only the service may write this field of a packet.
const fn is_reserved(number: u32) -> bool {
    matches!(
        number,
        TracePacket::TRUSTED_UID_FIELD_NUMBER
            | TracePacket::TRUSTED_PACKET_SEQUENCE_ID_FIELD_NUMBER
            | TracePacket::TRACE_CONFIG_FIELD_NUMBER
            | TracePacket::TRACE_STATS_FIELD_NUMBER
            | TracePacket::SYNCHRONIZATION_MARKER_FIELD_NUMBER
            | TracePacket::COMPRESSED_PACKETS_FIELD_NUMBER
            | TracePacket::SERVICE_EVENT_FIELD_NUMBER
            | TracePacket::TRUSTED_PID_FIELD_NUMBER
            | MACHINE_ID_FIELD_NUMBER
            | TracePacket::TRACE_PROVENANCE_FIELD_NUMBER
            | PROTOVMS_FIELD_NUMBER
            | TracePacket::ZSTD_COMPRESSED_PACKETS_FIELD_NUMBER
    )
}

/// Fields of the published schema that ours has no use for.
const MACHINE_ID_FIELD_NUMBER: u32 = 98;
const PROTOVMS_FIELD_NUMBER: u32 = 125;

#[inline]
fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let (&first, later) = rest.split_first()?;
    if first < 0x80 {
        *rest = later;
        return Some(u64::from(first));
    }
    take_long_varint(rest)
}

fn take_long_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, &byte) in rest.iter().take(VARINT_MAX_BYTES).enumerate() {
        // The last byte holds the topmost bit alone.
        if index == VARINT_MAX_BYTES - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *rest = &rest[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_and_defaults_are_no_events() {
        assert_eq!(classify(&[0x40, 5, 0x5a, 0]), Some(PacketKind::Event));
        assert_eq!(classify(&[0xa2, 0x38, 0]), Some(PacketKind::Event));
        for description in [
            &[0x40, 5, 0xe2, 0x03, 0][..],
            &[0x40, 5],
            &[0xda, 0x03, 0],
            &[],
        ] {
            assert_eq!(classify(description), Some(PacketKind::Description));
        }
        let defaults_then_event = [0xda, 0x03, 1, 7, 0x5a, 0];
        assert_eq!(classify(&defaults_then_event), Some(PacketKind::Event));
    }

    #[test]
    fn fields_of_the_service_are_refused_whatever_their_wire_type() {
        for number in [3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133_u32] {
            for (wire_type, value) in [(0, &[1][..]), (1, &[0; 8]), (2, &[0]), (5, &[0; 4])] {
                let mut packet = vec![0x40, 5];
                let tag = number << 3 | wire_type;
                match tag {
                    0..0x80 => packet.push(tag as u8),
                    _ => packet.extend([tag as u8 | 0x80, (tag >> 7) as u8]),
                }
                packet.extend_from_slice(value);
                assert_eq!(classify(&packet), None, "field {number}, type {wire_type}");
            }
        }
        // Their neighbours are the writers'.
        for tag in [[0x22, 0], [0x58, 1]] {
            assert!(classify(&tag).is_some());
        }
    }

    #[test]
    fn what_is_cut_off_or_of_no_known_wire_type_is_refused() {
        let whole = [
            0x40, 0x85, 1, 0x5a, 2, 9, 9, 0x39, 1, 2, 3, 4, 5, 6, 7, 8, 0x3d, 1, 2, 3, 4,
        ];
        let ends_of_fields = [0, 3, 7, 16, 21];
        for len in 0..=whole.len() {
            let is_valid = classify(&whole[..len]).is_some();
            assert_eq!(is_valid, ends_of_fields.contains(&len), "{len} bytes");
        }
        for wire_type in [3, 4, 6, 7] {
            assert_eq!(
                classify(&[11 << 3 | wire_type, 0]),
                None,
                "type {wire_type}"
            );
        }
        // Field number 0, and one of 30 bits.
        assert_eq!(classify(&[0x00, 1]), None);
        assert_eq!(classify(&[0x80, 0x80, 0x80, 0x80, 0x10, 1]), None);
    }

    #[test]
    fn varints_have_64_bits_at_most() {
        let timestamp = |last| {
            let mut packet = vec![0x40];
            packet.extend([0xff; 9]);
            packet.push(last);
            packet
        };
        assert!(classify(&timestamp(1)).is_some());
        assert_eq!(classify(&timestamp(2)), None);
        assert_eq!(classify(&timestamp(0x81)), None);
    }
}
