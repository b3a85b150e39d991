//! Events whose packet is put together where it stands, in one go: most of those with arguments.
//!
//! Nothing is open meanwhile, and no length is left for later: each part is a few bytes that are put
//! behind the part before. What does not fit is written by way of the messages instead.

use protozero::CompactValue;

use crate::encoding::{EventBody, timestamp};
use crate::event::EventParts;
use crate::short_event::ShortEvent;

/// Puts the packet of an event together: its time, the fields that all events of its call site have, and
/// `parts`. Returns whether it fits.
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
            // At most 127, as the packet.
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

    /// The packet that is put together; `None` if it does not fit.
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

    /// The packet that the messages' writers write.
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
    fn an_event_that_is_put_together_is_the_one_that_the_writers_write() {
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
