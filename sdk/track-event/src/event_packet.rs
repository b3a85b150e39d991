//! Encodes the packet of a short event in one go, which is how most events with arguments are
//! written.
//!
//! Each part appends a few bytes, and no nested message has to be opened and closed. An event that
//! does not fit is written with the generated message writers instead.

use protozero::CompactValue;

use crate::encoding::{EventBody, timestamp};
use crate::event::EventParts;
use crate::short_event::ShortEvent;

/// Writes the packet of an event: its time, the constant `body` of its call site, and `parts`.
/// Returns false if it does not fit.
#[inline(always)]
pub(super) fn put_event(
    packet: &mut CompactValue<'_>,
    distance_ns: u64,
    body: &EventBody,
    name_iids: &[u32],
    parts: &impl EventParts,
) -> bool {
    let Some((time, time_len)) = timestamp(distance_ns) else {
        return false;
    };
    let (constants, constants_len) = body.bytes();
    packet.put_some(&time, time_len)
        && packet.put_some(constants, constants_len)
        && parts.put_all(&mut ShortEvent::new(packet, name_iids))
        && {
            let fields_at = time_len + body.fields_at();
            // At most 127, because the whole packet is no longer than that.
            let fields_len = packet.len() - fields_at;
            packet.replace(fields_at - 1, fields_len as u8)
        }
}

#[cfg(test)]
mod tests {
    use protozero::{FixedSource, HeapBuffered};

    use super::*;
    use crate::event::{Arg, EventWriter, Through};
    use crate::{Flow, display};
    use tracezero_core::protos::TracePacket;
    use tracezero_core::protos::trace_packet::SequenceFlags;
    use tracezero_core::protos::track_event::Type;

    const DISTANCE_NS: u64 = 1234;
    const NAME_IIDS: [u32; 3] = [1, 2, 0x7f];

    fn body() -> EventBody {
        let write = |event: &mut tracezero_core::protos::TrackEvent<'_>| {
            event.set_type(Type::SLICE_BEGIN).set_name_iid(300);
        };
        EventBody::encode(write).expect("it is short")
    }

    /// Returns the packet from `put_event`; `None` if it does not fit.
    fn put(name_iids: &[u32], parts: &impl EventParts) -> Option<Vec<u8>> {
        let mut memory = [0; 256];
        let mut stream = FixedSource::stream(&mut memory);
        let len = stream.append_delimited_by(|packet| {
            put_event(packet, DISTANCE_NS, &body(), name_iids, parts)
        })?;
        drop(stream);
        assert_eq!(usize::from(memory[0]), len);
        Some(memory[1..=len].to_vec())
    }

    /// Returns the packet from the generated writers.
    fn written(parts: &impl EventParts) -> Vec<u8> {
        let mut packet = HeapBuffered::<TracePacket<'_>>::new();
        let mut message = packet.message();
        message.set_timestamp(DISTANCE_NS);
        message.set_sequence_flags(SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u32);
        message.track_event(|event| {
            body().append_fields(event);
            parts.write_all(&mut EventWriter::new(event, &NAME_IIDS));
        });
        drop(message);
        packet.to_vec()
    }

    #[test]
    fn packet_from_put_event_equals_the_writers_packet() {
        let parts = ((((), Arg(&-0.5)), Arg(&true)), Arg("text"));
        assert!(parts.are_short());
        assert_eq!(put(&NAME_IIDS, &parts), Some(written(&parts)));
        assert_eq!(put(&NAME_IIDS, &()), Some(written(&())));
    }

    #[test]
    fn texts_fit_up_to_the_last_byte_of_a_packet() {
        let mut longest = 0;
        for len in 0..=127 {
            let text = "x".repeat(len);
            let parts = (((), Arg(&7_u8)), Arg(text.as_str()));
            let written = written(&parts);
            match put(&NAME_IIDS, &parts) {
                Some(put) => {
                    assert_eq!(put, written);
                    longest = written.len();
                }
                None => assert!(written.len() > 127),
            }
        }
        assert_eq!(longest, 127);
    }

    #[test]
    fn numbers_of_any_size_fit_and_other_parts_are_not_short() {
        for number in [0, (1 << 21) - 1, 1 << 21, i64::MAX, -1, i64::MIN] {
            let parts = ((), Arg(&number));
            assert_eq!(put(&NAME_IIDS, &parts), Some(written(&parts)), "{number}");
        }
        assert!(!((), Arg(&display(&1))).are_short());
        assert!(!(((), Arg(&1)), Through(&Flow::new())).are_short());
    }

    #[test]
    fn arguments_without_names_are_left_out() {
        let parts = (((), Arg(&1)), Arg("text"));
        assert_eq!(put(&[], &parts), Some(written(&())));
    }
}
