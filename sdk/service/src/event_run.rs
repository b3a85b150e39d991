//! A fast path that frames runs of events of the usual form, which nearly all packets have.
//!
//! An event of the usual form consists of a timestamp, the sequence flags and a track event, in
//! this order, in less than 128 bytes. The first eight bytes are enough to recognize it. It is
//! copied by moves of fixed size.

use super::packet_validator::{NEEDS_STATE, SEQUENCE_FLAGS_TAG, TIMESTAMP_TAG, TRACK_EVENT_TAG};
use tracezero_core::protos::Trace;

/// The tag of a packet in a trace.
pub(super) const PACKET_TAG: u8 = (Trace::PACKET_FIELD_NUMBER << 3 | 2) as u8;

/// The number of bytes that the copy of one packet moves. The packet is at their start.
pub(super) const MOVED_BYTES: usize = 128;

/// The space that framing one event writes to: a tag, a length, [`MOVED_BYTES`] and the last field.
const FRAMED_BYTES: usize = 2 + MOVED_BYTES + size_of::<[u8; 8]>();

/// The largest value of a varint of one byte.
const SHORT_MAX_BYTES: usize = 0x7f;

/// The size of the smallest event of the usual form: a timestamp, flags and an empty event, of two
/// bytes each.
const EVENT_MIN_BYTES: usize = 6;

/// The field that the service appends to each packet of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastField {
    /// The field, followed by zeros. A copy of fixed size takes one instruction.
    bytes: [u8; 8],
    /// The number of bytes that belong to the field.
    len: u8,
}

impl LastField {
    /// Returns `None` if the field has more than 8 bytes.
    pub(super) fn new(field: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8];
        bytes.get_mut(..field.len())?.copy_from_slice(field);
        Some(Self {
            bytes,
            len: field.len() as u8,
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The result of [`EventFramer::append_events`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AppendedCounts {
    pub(super) events: u64,
    /// The number of bytes that these events take in the run.
    pub(super) bytes: usize,
}

/// Frames events of the usual form and appends them to a trace.
#[derive(Debug, Default)]
pub(super) struct EventFramer {
    /// Memory that events are framed in before one copy appends them all. It is never shortened, so
    /// it need not be zeroed again.
    framed: Vec<u8>,
}

impl EventFramer {
    /// Appends to `trace` the events of the usual form at the start of a run, each as a packet that
    /// ends with `last_field`. The run is the first `run_bytes` of `bytes` and consists of packets,
    /// each behind its size.
    ///
    /// Stops at the first packet of another form, at a packet that needs the incremental state
    /// unless `has_state`, and less than [`MOVED_BYTES`] before the end of `bytes`.
    pub(super) fn append_events(
        &mut self,
        bytes: &[u8],
        run_bytes: usize,
        has_state: bool,
        last_field: &LastField,
        trace: &mut Vec<u8>,
    ) -> AppendedCounts {
        let last_bytes = usize::from(last_field.len);
        // Framing adds a tag and the last field to each event. The last move may write beyond the
        // end.
        let events_max = run_bytes / (1 + EVENT_MIN_BYTES) + 1;
        let framed_max_bytes = run_bytes + events_max * (1 + last_bytes) + FRAMED_BYTES;
        if self.framed.len() < framed_max_bytes {
            self.framed.resize(framed_max_bytes, 0);
        }
        let mut end = 0;
        let mut appended = AppendedCounts::default();
        while appended.bytes < run_bytes
            && let Some((&[len], packet)) = bytes[appended.bytes..].split_first_chunk()
            && let Some(packet) = packet.first_chunk::<MOVED_BYTES>()
            && let Some(framed) = self.framed[end..].first_chunk_mut::<FRAMED_BYTES>()
        {
            let packet_bytes = usize::from(len);
            let framed_bytes = packet_bytes + last_bytes;
            let is_in_run = packet_bytes < run_bytes - appended.bytes;
            match needs_state_as_usual(packet, packet_bytes) {
                Some(needs_state)
                    if is_in_run
                        && framed_bytes <= SHORT_MAX_BYTES
                        && (has_state || !needs_state) => {}
                _ => break,
            }
            framed[0] = PACKET_TAG;
            framed[1] = framed_bytes as u8;
            framed[2..2 + MOVED_BYTES].copy_from_slice(packet);
            framed[2 + packet_bytes..][..8].copy_from_slice(&last_field.bytes);
            end += 2 + framed_bytes;
            appended.bytes += 1 + packet_bytes;
            appended.events += 1;
        }
        trace.extend_from_slice(&self.framed[..end]);
        appended
    }
}

/// Returns whether a packet needs the incremental state of its sequence; `None` if the packet is
/// not an event of the usual form. The packet is the first `packet_bytes` of `packet`.
#[inline(always)]
fn needs_state_as_usual(packet: &[u8; MOVED_BYTES], packet_bytes: usize) -> Option<bool> {
    let head = u64::from_le_bytes(*packet.first_chunk()?);
    // Find the last byte of the timestamp's varint, which has one to three bytes.
    let time_ends = !head & 0x8080_8000;
    if head as u8 != TIMESTAMP_TAG || time_ends == 0 {
        return None;
    }
    let flags_at = time_ends.trailing_zeros() / 8 + 1;
    let [flags_tag, flags, event_tag, event_bytes] =
        ((head >> (8 * flags_at)) as u32).to_le_bytes();
    let is_usual = flags_tag == SEQUENCE_FLAGS_TAG
        && u64::from(flags) & !NEEDS_STATE == 0
        && event_tag == TRACK_EVENT_TAG
        && usize::from(event_bytes) <= SHORT_MAX_BYTES
        && flags_at as usize + 4 + usize::from(event_bytes) == packet_bytes;
    is_usual.then_some(flags != 0)
}

#[cfg(test)]
mod tests {
    use tracezero_core::packet_content::PacketContent;

    use super::super::packet_validator::inspect;
    use super::*;

    const LAST_FIELD: [u8; 2] = [0x50, 2];

    /// Frames a run of these packets. Returns the trace and the number of packets framed.
    fn append(packets: &[&[u8]], has_state: bool) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        for packet in packets {
            bytes.push(packet.len() as u8);
            bytes.extend_from_slice(packet);
        }
        let run_bytes = bytes.len();
        bytes.resize(run_bytes + MOVED_BYTES, 0x40);
        let last_field = LastField::new(&LAST_FIELD).expect("two bytes");
        let mut trace = vec![7];
        let appended = EventFramer::default().append_events(
            &bytes,
            run_bytes,
            has_state,
            &last_field,
            &mut trace,
        );
        let taken = &packets[..appended.events as usize];
        let taken_bytes: usize = taken.iter().map(|packet| 1 + packet.len()).sum();
        assert_eq!(appended.bytes, taken_bytes);
        (trace, appended.events)
    }

    fn framed(packets: &[&[u8]]) -> Vec<u8> {
        let mut trace = vec![7];
        for packet in packets {
            trace.extend([0x0a, packet.len() as u8 + 2]);
            trace.extend_from_slice(packet);
            trace.extend(LAST_FIELD);
        }
        trace
    }

    /// Creates an event of this size.
    fn event_of(packet_bytes: u8) -> Vec<u8> {
        let mut packet = vec![0x40, 5, 0x68, 2, 0x5a, packet_bytes - 6];
        packet.resize(packet_bytes.into(), packet_bytes);
        packet
    }

    #[test]
    fn usual_events_are_what_a_full_look_finds() {
        for packet in [
            &[0x40, 5, 0x68, 2, 0x5a, 1, 7][..],
            &[0x40, 0x85, 1, 0x68, 2, 0x5a, 0],
            &[0x40, 0x85, 0x81, 1, 0x68, 0, 0x5a, 2, 7, 7],
        ] {
            let info = inspect(packet).expect("valid");
            assert_eq!(info.content, PacketContent::Event);
            assert!(!info.starts_state && !info.follows_loss);
            assert_eq!(append(&[packet], true), (framed(&[packet]), 1));
            let without_state = u64::from(!info.needs_state);
            assert_eq!(append(&[packet], false).1, without_state);
        }
        for other in [
            &[][..],
            &[0x40],
            &[0x40, 5, 0x68, 2, 0x5a],
            &[0x40, 5, 0x68, 2, 0x5a, 1],
            &[0x40, 5, 0x68, 2, 0x5a, 1, 7, 7],
            &[0x40, 5, 0x68, 1, 0x5a, 1, 7],
            &[0x40, 5, 0x68, 0x82, 0x5a, 1, 7],
            &[0x40, 0x85, 0x85, 0x85, 1, 0x68, 2, 0x5a, 0],
            &[0x68, 2, 0x5a, 0],
        ] {
            assert_eq!(append(&[other], true), (vec![7], 0), "{other:?}");
        }
    }

    #[test]
    fn events_are_framed_up_to_the_first_of_another_form() {
        let events: Vec<_> = (6..=125).map(event_of).collect();
        let mut packets: Vec<&[u8]> = events.iter().map(Vec::as_slice).collect();
        let trace = framed(&packets);
        assert_eq!(append(&packets, true), (trace.clone(), 120));
        // With the last field, this event would have 128 bytes.
        let too_long = event_of(126);
        packets.push(&too_long);
        packets.push(&events[0]);
        assert_eq!(append(&packets, true), (trace, 120));
        let smallest = vec![events[0].as_slice(); 1000];
        assert_eq!(append(&smallest, true), (framed(&smallest), 1000));
    }

    #[test]
    fn sizes_that_point_beyond_the_run_end_it() {
        let last_field = LastField::new(&LAST_FIELD).expect("two bytes");
        let mut whole = vec![20];
        whole.extend(event_of(20));
        whole.resize(1 + 20 + MOVED_BYTES, 0);
        for run_bytes in 0..=21 {
            let mut trace = Vec::new();
            let mut framer = EventFramer::default();
            let appended = framer.append_events(&whole, run_bytes, true, &last_field, &mut trace);
            let is_whole = run_bytes == 21;
            assert_eq!(appended.events, u64::from(is_whole), "{run_bytes} bytes");
            assert_eq!(trace.is_empty(), !is_whole);
        }
        for bytes in [&[][..], &[0x7f], &[6, 0x40, 5], &[0x80; 200]] {
            let mut trace = Vec::new();
            let mut framer = EventFramer::default();
            let appended = framer.append_events(bytes, bytes.len(), true, &last_field, &mut trace);
            assert_eq!((appended, trace.len()), (AppendedCounts::default(), 0));
        }
    }
}
