//! Counts the spans of a Perfetto trace, with decoders that are not ours.

use std::collections::HashMap;
use std::path::Path;

use prost::Message;

use crate::packets::for_each_packet;
use crate::programs::Result;

/// The fields of `perfetto.protos.TracePacket` that are needed.
#[derive(Message)]
struct Packet {
    #[prost(uint32, tag = "10")]
    sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    event: Option<Event>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(bool, tag = "42")]
    previous_packet_dropped: bool,
}

/// The fields of `perfetto.protos.TrackEvent` that are needed.
#[derive(Message)]
struct Event {
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    arguments: Vec<Argument>,
}

/// The field of `perfetto.protos.DebugAnnotation` that is needed.
#[derive(Message)]
struct Argument {
    #[prost(uint64, optional, tag = "3")]
    number: Option<u64>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INCREMENTAL_STATE_CLEARED: u32 = 1;
const NEEDS_INCREMENTAL_STATE: u32 = 2;

/// The spans of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spans {
    /// The begins in the file.
    pub begins: u64,
    /// The begins that can be decoded: after a loss, packets that need incremental state are useless
    /// until their sequence clears it.
    pub decodable_begins: u64,
    /// The ends that can be decoded.
    pub decodable_ends: u64,
    /// The begins and ends that cannot be decoded.
    pub undecodable: u64,
    /// The packets that are marked as the first one after a loss, without the first of a sequence.
    pub marked_losses: u64,
    /// The places where the last argument of a begin, in its sequence, is not one more than before.
    pub gaps: u64,
}

/// The state of a sequence.
#[derive(Default)]
struct Sequence {
    has_packets: bool,
    has_state: bool,
    next_number: Option<u64>,
}

impl Spans {
    /// Counts the spans in a file.
    pub fn of_file(file: &Path) -> Result<Self> {
        let mut sequences = HashMap::<u32, Sequence>::new();
        let mut spans = Self::default();
        for_each_packet(file, |packet: Packet| {
            spans.add(&packet, sequences.entry(packet.sequence_id).or_default());
        })?;
        Ok(spans)
    }

    fn add(&mut self, packet: &Packet, sequence: &mut Sequence) {
        if packet.previous_packet_dropped {
            sequence.has_state = false;
            self.marked_losses += u64::from(sequence.has_packets);
        }
        sequence.has_packets = true;
        sequence.has_state |= packet.sequence_flags & INCREMENTAL_STATE_CLEARED != 0;
        let needs_state = packet.sequence_flags & NEEDS_INCREMENTAL_STATE != 0;
        let Some(event) = &packet.event else {
            return;
        };
        let (is_begin, is_end) = (event.kind == SLICE_BEGIN, event.kind == SLICE_END);
        self.begins += u64::from(is_begin);
        if sequence.has_state || !needs_state {
            self.decodable_begins += u64::from(is_begin);
            self.decodable_ends += u64::from(is_end);
        } else {
            self.undecodable += 1;
        }
        let number = event.arguments.last().and_then(|argument| argument.number);
        if let (true, Some(number)) = (is_begin, number) {
            let expected = sequence.next_number.replace(number + 1);
            self.gaps += u64::from(expected.is_some_and(|expected| expected != number));
        }
    }
}
