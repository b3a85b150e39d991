//! Events that consist of constants, but for the time: encoded once, and put together each time.

use protozero::HeapBuffered;

use crate::protos::trace_packet::SequenceFlags;
use crate::protos::track_event::Type;
use crate::protos::{TracePacket, TrackEvent};

/// Longest body, in bytes: of an event with one category it has at most 18.
const BODY_MAX_BYTES: usize = 32;
/// Longest packet in front of its body: a tag and a time stamp.
const HEAD_MAX_BYTES: usize = 11;
/// First byte of a packet: the tag of its time stamp, a varint.
const TIMESTAMP_TAG: u8 = (TracePacket::TIMESTAMP_FIELD_NUMBER << 3) as u8;

/// All of an event's packet but its time stamp.
#[derive(Debug)]
pub(super) struct EventBody {
    bytes: [u8; BODY_MAX_BYTES],
    /// 0 if it would be too long.
    len: usize,
}

impl EventBody {
    /// The body of an event with a name, or without one for 0.
    pub(super) fn new(event_type: Type, categories: &[u32], name: u32) -> Self {
        Self::encode(|event| {
            event.set_type(event_type);
            for &category in categories {
                event.add_category_iids(u64::from(category));
            }
            if name != 0 {
                event.set_name_iid(u64::from(name));
            }
        })
    }

    /// The body of an event that `write` writes.
    pub(super) fn encode(write: impl FnOnce(&mut TrackEvent<'_>)) -> Self {
        let mut packet = HeapBuffered::<TracePacket>::new();
        let mut message = packet.message();
        message.set_sequence_flags(SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u32);
        message.track_event(write);
        drop(message);
        let encoded = packet.to_vec();
        let mut body = Self {
            bytes: [0; BODY_MAX_BYTES],
            len: 0,
        };
        if let Some(bytes) = body.bytes.get_mut(..encoded.len()) {
            bytes.copy_from_slice(&encoded);
            body.len = encoded.len();
        }
        body
    }

    pub(super) const fn is_usable(&self) -> bool {
        self.len != 0
    }
}

/// A packet that is put together.
#[derive(Debug)]
pub(super) struct TimedPacket {
    bytes: [u8; HEAD_MAX_BYTES + BODY_MAX_BYTES],
    len: usize,
}

impl TimedPacket {
    /// The event of `body`, so long after the one before it.
    #[inline]
    pub(super) fn new(distance_ns: u64, body: &EventBody) -> Self {
        let mut bytes = [0; HEAD_MAX_BYTES + BODY_MAX_BYTES];
        bytes[0] = TIMESTAMP_TAG;
        let mut len = 1;
        let mut rest = distance_ns;
        while rest >= 0x80 && len < HEAD_MAX_BYTES - 1 {
            bytes[len] = rest as u8 | 0x80;
            rest >>= 7;
            len += 1;
        }
        bytes[len] = rest as u8;
        len += 1;
        if let Some(at) = bytes[len..].first_chunk_mut() {
            *at = body.bytes;
        }
        Self {
            bytes,
            len: len + body.len,
        }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_put_together_is_the_one_that_its_writer_writes() {
        for distance_ns in [0, 1, 127, 128, 1 << 14, u64::MAX >> 1, u64::MAX] {
            for categories in [&[1][..], &[1, 70_000, u32::MAX]] {
                let body = EventBody::new(Type::INSTANT, categories, 300);
                assert!(body.is_usable());

                let mut packet = HeapBuffered::<TracePacket>::new();
                let mut message = packet.message();
                message.set_timestamp(distance_ns);
                message.set_sequence_flags(2);
                message.track_event(|event| {
                    event.set_type(Type::INSTANT);
                    for &category in categories {
                        event.add_category_iids(u64::from(category));
                    }
                    event.set_name_iid(300);
                });
                drop(message);
                let put_together = TimedPacket::new(distance_ns, &body);
                assert_eq!(put_together.as_bytes(), packet.to_vec());
            }
        }
    }

    #[test]
    fn an_event_of_very_many_categories_is_not_put_together() {
        let body = EventBody::new(Type::INSTANT, &[u32::MAX; 10], 1);
        assert!(!body.is_usable());
    }
}
