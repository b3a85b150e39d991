//! The constant part of an event's packet, which a call site encodes once.
//!
//! Events of a call site without arguments differ only in their time. So the call site encodes the
//! rest once, as a *body*, and each event is a timestamp and one copy of the body. Perfetto's own
//! SDK writes each event field by field. Arguments follow the body (`short_event.rs`, `scalar.rs`).
//!
//! The result must be the same bytes as the generated writers write. The tests below and those in
//! `scalar.rs` and `short_event.rs` check this.

use protozero::HeapBuffered;

use tracezero_core::protos::trace_packet::SequenceFlags;
use tracezero_core::protos::{TracePacket, TrackEvent};

/// The maximum length of a body. The body of an event with one category has at most 18 bytes.
const BODY_MAX_BYTES: usize = 32;
/// The size of the memory for the timestamp field in front of a body. The field takes at most five
/// of these bytes: the tag, and a varint.
const HEAD_BYTES: usize = 8;
/// The first byte of a packet: the tag of the timestamp field, which is a varint.
const TIMESTAMP_TAG: u64 = (TracePacket::TIMESTAMP_FIELD_NUMBER << 3) as u64;

/// The packet of an event, without the timestamp.
#[derive(Debug)]
pub(super) struct EventBody {
    bytes: [u8; BODY_MAX_BYTES],
    len: usize,
    /// The offset of the event's own fields.
    fields_at: usize,
    /// The first eight bytes of these fields; usually that is all of them.
    first_fields: [u8; 8],
}

impl EventBody {
    /// Encodes the body of an event whose fields `write` writes; `None` if it is too long.
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

    /// Returns the bytes and their length.
    #[inline]
    pub(super) const fn bytes(&self) -> (&[u8; BODY_MAX_BYTES], usize) {
        (&self.bytes, self.len)
    }

    /// Returns the offset of the event's own fields. The byte before is their length.
    #[inline(always)]
    pub(super) const fn fields_at(&self) -> usize {
        self.fields_at
    }

    /// Appends only the event's own fields.
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

/// Returns the timestamp field in front of the body, and its length. Returns `None` for a distance
/// of 268 ms or more: that is rare, and the generated writers then write the event.
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
    fn head_and_body_equal_the_writers_packet() {
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
    fn appended_fields_equal_the_events_fields() {
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
    fn long_distances_and_long_bodies_are_refused() {
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
