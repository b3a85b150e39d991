//! Events that consist of constants, but for the time: encoded once, and put together each time.
//!
//! An event that is put together is the same bytes as its writer writes. The tests below and those in
//! `scalar.rs` and `short_event.rs` check this.
//!
//! An event without arguments is the same each time, but for its time. So a call site encodes it once, and
//! each event is a time stamp and one copy. Perfetto's own SDK writes each event field by field. Arguments
//! follow the constants (`short_event.rs`, `scalar.rs`).

use protozero::HeapBuffered;

use tracezero_core::protos::trace_packet::SequenceFlags;
use tracezero_core::protos::{TracePacket, TrackEvent};

/// Longest body, in bytes: of an event with one category it has at most 18.
const BODY_MAX_BYTES: usize = 32;
/// Longest time stamp in front of a body, with its tag.
const HEAD_BYTES: usize = 8;
/// First byte of a packet: the tag of its time stamp, a varint.
const TIMESTAMP_TAG: u64 = (TracePacket::TIMESTAMP_FIELD_NUMBER << 3) as u64;

/// All of an event's packet but its time stamp.
#[derive(Debug)]
pub(super) struct EventBody {
    bytes: [u8; BODY_MAX_BYTES],
    len: usize,
    /// Bytes before the fields of the event itself.
    fields_at: usize,
    /// The first of these fields' bytes, all of them in the usual case.
    first_fields: [u8; 8],
}

impl EventBody {
    /// The body of an event that `write` writes; `None` if it would be too long.
    pub(super) fn encode(write: impl Fn(&mut TrackEvent<'_>)) -> Option<Self> {
        let mut event = HeapBuffered::<TrackEvent>::new();
        write(&mut event.message());
        let fields = event.to_vec();
        let mut first_fields = [0; 8];
        for (to, from) in first_fields.iter_mut().zip(&fields) {
            *to = *from;
        }

        let mut packet = HeapBuffered::<TracePacket>::new();
        let mut message = packet.message();
        message.set_sequence_flags(SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u32);
        message.track_event(write);
        drop(message);
        let encoded = packet.to_vec();

        let mut bytes = [0; BODY_MAX_BYTES];
        bytes.get_mut(..encoded.len())?.copy_from_slice(&encoded);
        Some(Self {
            bytes,
            len: encoded.len(),
            fields_at: encoded.len() - fields.len(),
            first_fields,
        })
    }

    /// The bytes, and how many of them count.
    #[inline]
    pub(super) const fn bytes(&self) -> (&[u8; BODY_MAX_BYTES], usize) {
        (&self.bytes, self.len)
    }

    /// Where the fields of the event begin; their length is the byte before.
    #[inline(always)]
    pub(super) const fn fields_at(&self) -> usize {
        self.fields_at
    }

    /// Appends the fields of the event alone.
    #[inline]
    pub(super) fn append_fields(&self, event: &mut TrackEvent<'_>) {
        let len = self.len - self.fields_at;
        let message = event.as_message_mut();
        if len <= self.first_fields.len() {
            message.append_some_raw(self.first_fields, len);
        } else {
            message.append_raw(self.bytes.get(self.fields_at..self.len).unwrap_or_default());
        }
    }
}

/// What comes before the body: a time stamp, and how many bytes it takes. `None` for one so large
/// that it hardly matters how it is written, 268 ms.
#[inline]
pub(super) fn timestamp(distance_ns: u64) -> Option<([u8; HEAD_BYTES], usize)> {
    let group = |index: u32| (distance_ns >> (7 * index) & 0x7f) << (8 * index);
    let (varint, len) = match distance_ns {
        ..0x80 => (distance_ns, 1),
        0x80..0x4000 => (0x80 | group(0) | group(1), 2),
        0x4000..0x20_0000 => (0x8080 | group(0) | group(1) | group(2), 3),
        0x20_0000..0x1000_0000 => (0x80_8080 | group(0) | group(1) | group(2) | group(3), 4),
        _ => return None,
    };
    let head = varint << 8 | TIMESTAMP_TAG;
    Some((head.to_le_bytes(), 1 + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracezero_core::protos::track_event::Type;

    fn write(event: &mut TrackEvent<'_>) {
        event.set_type(Type::INSTANT).set_name_iid(300);
    }

    #[test]
    fn a_packet_put_together_is_the_one_that_its_writer_writes() {
        let body = EventBody::encode(write).expect("it is short");
        let distances_ns = (0..28).flat_map(|bits| [1 << bits, (2 << bits) - 1]);
        for distance_ns in distances_ns.chain([0]) {
            let mut packet = HeapBuffered::<TracePacket>::new();
            let mut message = packet.message();
            message.set_timestamp(distance_ns).set_sequence_flags(2);
            message.track_event(write);
            drop(message);

            let (head, head_len) = timestamp(distance_ns).expect("it is short");
            let (body, body_len) = body.bytes();
            let put_together = [&head[..head_len], &body[..body_len]].concat();
            assert_eq!(put_together, packet.to_vec());
        }
    }

    #[test]
    fn the_fields_are_those_of_the_event() {
        for iid in [1, 300, u64::MAX] {
            let write = |event: &mut TrackEvent<'_>| {
                event.set_type(Type::INSTANT).set_name_iid(iid);
            };
            let body = EventBody::encode(write).expect("it is short");
            let encoded = [&write as &dyn Fn(&mut TrackEvent<'_>), &|event| {
                body.append_fields(event);
            }]
            .map(|write| {
                let mut event = HeapBuffered::<TrackEvent>::new();
                write(&mut event.message());
                event.to_vec()
            });
            assert_eq!(encoded[0], encoded[1]);
        }
    }

    #[test]
    fn a_long_distance_and_an_event_of_many_categories_are_not_put_together() {
        for distance_ns in [1 << 28, u64::MAX] {
            assert_eq!(timestamp(distance_ns), None);
        }
        let body = EventBody::encode(|event| {
            for _ in 0..30 {
                event.add_category_iids(1);
            }
        });
        assert!(body.is_none());
    }
}
