//! Packets, with the fields beside the payload decoded.

use protozero::{DecodeError, Decoder, Value};

use crate::cursor::Cursor;
use crate::fields;
use crate::plausible::{has_its_wire_type, is_packet_in_packet};
use tracezero_core::protos::trace_packet::SequenceFlags;

const CLEARED: u32 = SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32;
const NEEDS_STATE: u32 = SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u32;

/// A `TracePacket`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The fields beside the payload.
    pub head: PacketHead,
    bytes: &'a [u8],
}

/// The fields of a packet beside its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHead {
    /// The timestamp as the packet has it, in units of its clock.
    pub timestamp: Option<u64>,
    /// The clock of `timestamp`, if the packet names one.
    pub timestamp_clock_id: Option<u32>,
    /// The sequence of the packet; 0 if it has none.
    pub sequence_id: u32,
    /// The user id of the process that wrote the packet.
    pub trusted_uid: Option<i32>,
    /// The id of the process that wrote the packet.
    pub trusted_pid: Option<i32>,
    /// The machine that the packet comes from, if it is not the service's.
    pub machine_id: Option<u32>,
    /// The bits of `SequenceFlags`. The deprecated field `incremental_state_cleared` sets the flag
    /// `SEQ_INCREMENTAL_STATE_CLEARED`, too.
    pub sequence_flags: u32,
    /// The reasons why packets before this one are missing; 0 if none are.
    pub previous_packet_dropped: u32,
    /// True if the packet says that it is the first of its sequence.
    pub first_packet_on_sequence: bool,
    /// The number of a field that was ignored because its wire type differs from the schema's.
    pub mistyped_field: Option<u32>,
    /// The number of the field that holds the payload; 0 if there is none.
    pub payload_field: u32,
    pub(super) payload: Span,
    pub(super) defaults: Span,
    pub(super) interned_data: Span,
}

/// The position of a field's bytes in a packet. Packets are shorter than 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// The payload of a packet: its data field, such as a track event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Payload<'a> {
    /// The number of the field in `TracePacket`.
    pub field: u32,
    /// The bytes of the message; empty if the field is a number.
    pub bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Decodes an encoded `TracePacket`.
    ///
    /// # Errors
    ///
    /// If the bytes cannot be split into fields.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut head = PacketHead::default();
        head.decode(bytes)?;
        Ok(Self { head, bytes })
    }

    pub(super) const fn new(head: PacketHead, bytes: &'a [u8]) -> Self {
        Self { head, bytes }
    }

    /// Returns the encoded packet.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the payload, if the packet has one.
    #[must_use]
    pub fn payload(&self) -> Option<Payload<'a>> {
        let field = self.head.payload_field;
        (field != 0).then(|| Payload {
            field,
            bytes: self.head.payload.of(self.bytes),
        })
    }

    /// Returns the encoded `TracePacketDefaults`; empty if there is none.
    #[must_use]
    pub fn defaults(&self) -> &'a [u8] {
        self.head.defaults.of(self.bytes)
    }

    /// Returns the encoded `InternedData`; empty if there is none.
    #[must_use]
    pub fn interned_data(&self) -> &'a [u8] {
        self.head.interned_data.of(self.bytes)
    }
}

impl PacketHead {
    /// Decodes an encoded packet.
    #[inline]
    pub(super) fn decode(&mut self, packet: &[u8]) -> Result<(), DecodeError> {
        *self = Self::default();
        if self.decode_usual(packet).is_some() {
            return Ok(());
        }
        *self = Self::decode_any(packet)?;
        Ok(())
    }

    /// Decodes a packet that has only common fields. Returns `None` for any other packet.
    #[inline]
    fn decode_usual(&mut self, packet: &[u8]) -> Option<()> {
        const VARINT: u32 = 0;
        const BYTES: u32 = 2;
        const TIMESTAMP: u8 = (fields::TIMESTAMP << 3 | VARINT) as u8;
        const SEQUENCE_FLAGS: u8 = (fields::SEQUENCE_FLAGS << 3 | VARINT) as u8;
        const SEQUENCE_ID: u8 = (fields::SEQUENCE_ID << 3 | VARINT) as u8;
        const TRACK_EVENT: u8 = (fields::TRACK_EVENT << 3 | BYTES) as u8;
        // This tag alone takes two bytes. All packets of other machines have it.
        const MACHINE_ID: u32 = fields::MACHINE_ID << 3 | VARINT;
        const MACHINE_ID_LOW: u8 = (MACHINE_ID & 0x7f | 0x80) as u8;
        const MACHINE_ID_HIGH: u8 = (MACHINE_ID >> 7) as u8;

        let mut cursor = Cursor::new(packet);
        while let Some(tag) = cursor.byte() {
            match tag {
                TIMESTAMP => self.timestamp = Some(cursor.varint()?),
                SEQUENCE_FLAGS => self.sequence_flags = cursor.varint()? as u32,
                SEQUENCE_ID => self.sequence_id = cursor.varint()? as u32,
                TRACK_EVENT => {
                    let event = cursor.bytes()?;
                    self.payload_field = fields::TRACK_EVENT;
                    self.payload = Span::new(packet, event);
                }
                MACHINE_ID_LOW if cursor.byte() == Some(MACHINE_ID_HIGH) => {
                    self.machine_id = Some(cursor.varint()? as u32);
                }
                _ => return None,
            }
        }
        Some(())
    }

    #[inline(never)]
    fn decode_any(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut head = Self::default();
        for field in Decoder::new(bytes).fields() {
            let field = field?;
            match (field.number, field.value) {
                (fields::TIMESTAMP, Value::Varint(value)) => head.timestamp = Some(value),
                (fields::SEQUENCE_FLAGS, Value::Varint(value)) => {
                    head.sequence_flags |= value as u32;
                }
                (fields::TRACK_EVENT, Value::Bytes(value)) => {
                    head.payload_field = fields::TRACK_EVENT;
                    head.payload = Span::new(bytes, value);
                }
                (fields::SEQUENCE_ID, Value::Varint(value)) => head.sequence_id = value as u32,
                (fields::TRUSTED_UID, Value::Varint(value)) => {
                    head.trusted_uid = Some(value as i32);
                }
                (fields::TRUSTED_PID, Value::Varint(value)) => {
                    head.trusted_pid = Some(value as i32);
                }
                (fields::INTERNED_DATA, Value::Bytes(value)) => {
                    head.interned_data = Span::new(bytes, value);
                }
                (fields::TIMESTAMP_CLOCK_ID, Value::Varint(value)) => {
                    head.timestamp_clock_id = Some(value as u32);
                }
                (fields::PREVIOUS_PACKET_DROPPED, Value::Varint(value)) => {
                    head.previous_packet_dropped = value as u32;
                }
                (fields::FIRST_PACKET_ON_SEQUENCE, Value::Varint(value)) => {
                    head.first_packet_on_sequence = value != 0;
                }
                (fields::TRACE_PACKET_DEFAULTS, Value::Bytes(value)) => {
                    head.defaults = Span::new(bytes, value);
                }
                (fields::MACHINE_ID, Value::Varint(value)) => head.machine_id = Some(value as u32),
                (fields::INCREMENTAL_STATE_CLEARED, Value::Varint(value)) => {
                    head.sequence_flags |= if value == 0 { 0 } else { CLEARED };
                }
                _ if is_packet_in_packet(field) => {
                    return Err(DecodeError::WireTypeMismatch {
                        field: field.number,
                    });
                }
                _ if !has_its_wire_type(field) => head.mistyped_field = Some(field.number),
                _ if head.payload_field != 0 => {}
                (number, value) => {
                    head.payload_field = number;
                    if let Value::Bytes(value) = value {
                        head.payload = Span::new(bytes, value);
                    }
                }
            }
        }
        Ok(head)
    }

    /// Returns true if the packet defines something for later packets.
    #[inline]
    pub(super) const fn has_definitions(&self) -> bool {
        self.defaults.end != 0 || self.interned_data.end != 0
    }

    /// Returns true if the packet clears the incremental state: definitions of earlier packets of
    /// the sequence are void from this packet on.
    #[must_use]
    #[inline]
    pub const fn clears_state(&self) -> bool {
        self.sequence_flags & CLEARED != 0
    }

    /// Returns true if the packet cannot be decoded without the sequence's incremental state: the
    /// definitions of earlier packets.
    #[must_use]
    #[inline]
    pub const fn needs_state(&self) -> bool {
        self.sequence_flags & NEEDS_STATE != 0
    }
}

impl Span {
    #[inline(always)]
    fn new(packet: &[u8], field: &[u8]) -> Self {
        let start = field.as_ptr().addr() - packet.as_ptr().addr();
        Self {
            start: start as u32,
            end: (start + field.len()) as u32,
        }
    }

    #[inline(always)]
    pub(super) fn of(self, packet: &[u8]) -> &[u8] {
        packet
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_fields_are_decoded_like_all_others() {
        // Fields 8, 13, 11 (a message of two bytes), 10 and 98.
        let packet = b"\x40\x05\x68\x02\x5a\x02\x48\x01\x50\x07\x90\x06\xac\x02";
        let mut head = PacketHead::default();
        assert!(head.decode_usual(packet).is_some());
        assert_eq!(Ok(head), PacketHead::decode_any(packet));
        assert_eq!((head.sequence_id, head.machine_id), (7, Some(300)));
        // The tag of another field begins with the same byte.
        assert_eq!(PacketHead::default().decode_usual(b"\x90\x07\x01"), None);
    }
}
