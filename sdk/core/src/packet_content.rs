//! The kinds of content by which packets are counted.

use crate::protos::TracePacket;

/// The content of a packet, as the service and the reports count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketContent {
    /// Data that is needed to read other packets.
    #[default]
    Description,
    /// A track event.
    Event,
    /// Any other data: a packet of a data source.
    Data,
}

impl PacketContent {
    /// Adds a length-delimited field of this number. Content comes as a message, so fields of other
    /// wire types add nothing. A packet with an event is an event, whatever other fields it has.
    #[inline]
    pub const fn add_field(&mut self, number: u32) {
        match (number, &self) {
            (_, Self::Event)
            | (
                TracePacket::CLOCK_SNAPSHOT_FIELD_NUMBER
                | TracePacket::TRACK_DESCRIPTOR_FIELD_NUMBER
                | TracePacket::INTERNED_DATA_FIELD_NUMBER
                | TracePacket::TRACE_PACKET_DEFAULTS_FIELD_NUMBER,
                _,
            ) => {}
            (TracePacket::TRACK_EVENT_FIELD_NUMBER, _) => *self = Self::Event,
            _ => *self = Self::Data,
        }
    }
}
