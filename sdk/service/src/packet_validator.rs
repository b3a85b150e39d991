//! Checks packets of writers: they must consist of whole fields, and must have no field that only
//! the service may write.
//!
//! Every packet is inspected once, when it is framed. Payloads are skipped, so the cost depends
//! only on the number of top-level fields, which is small.

use protozero::split_varint;

use tracezero_core::packet_content::PacketContent;
use tracezero_core::protos::TracePacket;
use tracezero_core::protos::trace_packet::SequenceFlags;

/// Facts about a packet that the service needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PacketInfo {
    pub(super) content: PacketContent,
    /// True if the packet starts the incremental state of its sequence.
    pub(super) starts_state: bool,
    /// True if the packet cannot be read without that state.
    pub(super) needs_state: bool,
    /// True if its writer lost packets before this one.
    pub(super) follows_loss: bool,
    /// True if it describes a track.
    pub(super) describes_track: bool,
}

/// The maximum size of a message, and so of a packet, in bytes: 256 MiB - 1. Perfetto has the same
/// limit: the largest length that fits into a varint of four bytes. A packet is also limited by the
/// size of its buffer. A service in a daemon needs no smaller limit, because the owners of sessions
/// choose how large buffers are.
pub(super) const PACKET_MAX_BYTES: usize = 0x0fff_ffff;
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;

/// Inspects a packet of a writer. Returns `None` if it is malformed or has fields that only the
/// service may write. The packet must have at most [`PACKET_MAX_BYTES`].
#[inline]
pub(super) fn inspect(packet: &[u8]) -> Option<PacketInfo> {
    debug_assert!(packet.len() <= PACKET_MAX_BYTES);
    let mut info = PacketInfo::default();
    let mut rest = packet;
    while let Some((&tag, after_tag)) = rest.split_first() {
        // The fast cases are the fields of nearly all packets. They have tags of one byte, and
        // short values.
        rest = match tag {
            TIMESTAMP_TAG => skip_varint(after_tag)?,
            SEQUENCE_FLAGS_TAG => {
                let (flags, rest) = split_varint(after_tag)?;
                info.note_flags(flags);
                rest
            }
            TRACK_EVENT_TAG => {
                info.content = PacketContent::Event;
                skip_bytes(after_tag)?
            }
            INTERNED_DATA_TAG => skip_bytes(after_tag)?,
            _ => inspect_field(&mut info, rest)?,
        };
    }
    Some(info)
}

/// Inspects a field of any kind. Returns the bytes behind it.
#[inline(never)]
fn inspect_field<'p>(info: &mut PacketInfo, rest: &'p [u8]) -> Option<&'p [u8]> {
    let (tag, rest) = split_varint(rest)?;
    let number = tag >> 3;
    if number == 0 || number > FIELD_NUMBER_MAX || is_reserved(number as u32) {
        return None;
    }
    match tag & 7 {
        0 => {
            let (value, rest) = split_varint(rest)?;
            match number as u32 {
                TracePacket::SEQUENCE_FLAGS_FIELD_NUMBER => info.note_flags(value),
                INCREMENTAL_STATE_CLEARED_FIELD_NUMBER => info.starts_state |= value != 0,
                TracePacket::PREVIOUS_PACKET_DROPPED_FIELD_NUMBER => {
                    info.follows_loss |= value != 0;
                }
                _ => {}
            }
            Some(rest)
        }
        1 => rest.get(8..),
        2 => {
            info.describes_track |= number as u32 == TracePacket::TRACK_DESCRIPTOR_FIELD_NUMBER;
            info.content.add_field(number as u32);
            skip_bytes(rest)
        }
        5 => rest.get(4..),
        _ => None,
    }
}

impl PacketInfo {
    #[inline]
    fn note_flags(&mut self, flags: u64) {
        self.starts_state |= flags & STARTS_STATE != 0;
        self.needs_state |= flags & NEEDS_STATE != 0;
    }
}

/// Bits of `TracePacket.sequence_flags`.
const STARTS_STATE: u64 = SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u64;
pub(super) const NEEDS_STATE: u64 = SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u64;

/// Tags that have one byte.
pub(super) const TIMESTAMP_TAG: u8 = (TracePacket::TIMESTAMP_FIELD_NUMBER << 3) as u8;
pub(super) const SEQUENCE_FLAGS_TAG: u8 = (TracePacket::SEQUENCE_FLAGS_FIELD_NUMBER << 3) as u8;
pub(super) const TRACK_EVENT_TAG: u8 = (TracePacket::TRACK_EVENT_FIELD_NUMBER << 3 | 2) as u8;
const INTERNED_DATA_TAG: u8 = (TracePacket::INTERNED_DATA_FIELD_NUMBER << 3 | 2) as u8;

/// Returns true if only the service may write this field of a packet.
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
            | TracePacket::MACHINE_ID_FIELD_NUMBER
            | TracePacket::TRACE_PROVENANCE_FIELD_NUMBER
            | TracePacket::PROTOVMS_FIELD_NUMBER
            | TracePacket::ZSTD_COMPRESSED_PACKETS_FIELD_NUMBER
    )
}

/// A field of Perfetto's schema that our schema leaves out.
const INCREMENTAL_STATE_CLEARED_FIELD_NUMBER: u32 = 41;

/// Returns the bytes behind the varint at the start.
#[inline]
fn skip_varint(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [0..0x80, rest @ ..] | [_, 0..0x80, rest @ ..] | [_, _, 0..0x80, rest @ ..] => Some(rest),
        _ => split_varint(bytes).map(|(_, rest)| rest),
    }
}

/// Skips a length at the start and that many bytes. Returns the bytes behind them.
#[inline]
fn skip_bytes(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = split_varint(bytes)?;
    rest.get(usize::try_from(len).ok()?..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_data_and_descriptions_are_distinguished() {
        let content = |packet: &[u8]| inspect(packet).unwrap().content;
        assert_eq!(content(&[0x40, 5, 0x5a, 0]), PacketContent::Event);
        assert_eq!(content(&[0xa2, 0x38, 0]), PacketContent::Data);
        for description in [
            &[0x40, 5, 0xe2, 0x03, 0][..],
            &[0x40, 5],
            &[0xda, 0x03, 0],
            &[0x62, 0],
            &[],
        ] {
            assert_eq!(content(description), PacketContent::Description);
        }
        for event_beside_other_content in [
            &[0xda, 0x03, 1, 7, 0x5a, 0][..],
            &[0x62, 1, 7, 0x5a, 0],
            &[0xa2, 0x38, 0, 0x5a, 0],
            &[0x5a, 0, 0xa2, 0x38, 0],
        ] {
            assert_eq!(content(event_beside_other_content), PacketContent::Event);
        }
    }

    #[test]
    fn sequence_flags_tell_if_state_is_needed() {
        let states = |packet: &[u8]| {
            let info = inspect(packet).unwrap();
            (info.starts_state, info.needs_state, info.follows_loss)
        };
        assert_eq!(states(&[0x40, 5]), (false, false, false));
        assert_eq!(states(&[0x68, 1]), (true, false, false));
        assert_eq!(states(&[0x68, 2]), (false, true, false));
        assert_eq!(states(&[0x68, 3]), (true, true, false));
        // The `sequence_flags` field with an overlong tag, `incremental_state_cleared`, and
        // `previous_packet_dropped`.
        assert_eq!(states(&[0xe8, 0x00, 2]), (false, true, false));
        assert_eq!(states(&[0xc8, 0x02, 1]), (true, false, false));
        assert_eq!(states(&[0xd0, 0x02, 1]), (false, false, true));
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
                assert_eq!(inspect(&packet), None, "field {number}, type {wire_type}");
            }
        }
        // Writers may write the fields next to the reserved fields.
        for tag in [[0x22, 0], [0x58, 1]] {
            assert!(inspect(&tag).is_some());
        }
    }

    #[test]
    fn truncated_fields_and_unknown_wire_types_are_refused() {
        let whole = [
            0x40, 0x85, 1, 0x5a, 2, 9, 9, 0x39, 1, 2, 3, 4, 5, 6, 7, 8, 0x3d, 1, 2, 3, 4,
        ];
        let ends_of_fields = [0, 3, 7, 16, 21];
        for len in 0..=whole.len() {
            let is_valid = inspect(&whole[..len]).is_some();
            assert_eq!(is_valid, ends_of_fields.contains(&len), "{len} bytes");
        }
        for wire_type in [3, 4, 6, 7] {
            assert_eq!(inspect(&[11 << 3 | wire_type, 0]), None, "type {wire_type}");
        }
        // Field number 0, and a field number of 30 bits.
        assert_eq!(inspect(&[0x00, 1]), None);
        assert_eq!(inspect(&[0x80, 0x80, 0x80, 0x80, 0x10, 1]), None);
    }

    #[test]
    fn varints_have_64_bits_at_most() {
        let timestamp = |last| {
            let mut packet = vec![0x40];
            packet.extend([0xff; 9]);
            packet.push(last);
            packet
        };
        assert!(inspect(&timestamp(1)).is_some());
        assert_eq!(inspect(&timestamp(2)), None);
        assert_eq!(inspect(&timestamp(0x81)), None);
    }
}
