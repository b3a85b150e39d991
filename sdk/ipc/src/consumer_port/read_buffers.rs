//! Replies to ReadBuffers: packets, cut into slices.

use protozero::{DecodeError, VARINT_MAX_BYTES, append_varint, encode_varint};

use super::REPLY_MAX_BYTES;
use crate::protos::read_buffers_response::Slice as SliceMessage;
use crate::protos::{ReadBuffersResponse, ReadBuffersResponseDecoder};

/// The maximum size of a slice, in bytes.
const SLICE_MAX_BYTES: usize = 120 * 1024;

/// The maximum size of what a slice has besides its bytes: two tags, two lengths and a flag, in bytes.
const SLICE_OVERHEAD_BYTES: usize = 16;

const _: () = assert!(SLICE_MAX_BYTES + SLICE_OVERHEAD_BYTES <= REPLY_MAX_BYTES);

/// Cuts packets into slices, and puts slices into replies of at most [`REPLY_MAX_BYTES`].
///
/// The slices of a packet follow each other, and may be in several replies.
///
/// ```
/// use tracezero_ipc::consumer_port::read_buffers::{SliceBatcher, decode_slices};
///
/// let mut replies = Vec::new();
/// let mut batcher = SliceBatcher::new();
/// batcher.push(b"packet", |reply| replies.push(reply.to_vec()));
/// batcher.finish(|reply| replies.push(reply.to_vec()));
///
/// let slice = decode_slices(&replies[0]).next().expect("a slice")?;
/// assert_eq!((slice.data, slice.ends_packet), (&b"packet"[..], true));
/// # Ok::<(), protozero::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct SliceBatcher {
    /// The slices of the next reply. At most [`REPLY_MAX_BYTES`] long, for which there is room from the
    /// start: a vector that grows would copy packets again.
    reply: Vec<u8>,
}

impl Default for SliceBatcher {
    fn default() -> Self {
        Self::new()
    }
}

impl SliceBatcher {
    /// Creates a batcher without slices. Allocates the memory of one reply.
    #[must_use]
    pub fn new() -> Self {
        Self {
            reply: Vec::with_capacity(REPLY_MAX_BYTES),
        }
    }

    /// Appends a packet, without the tag and length that a trace file has before it. Copies it once.
    /// Calls `each` with every reply that is full.
    pub fn push(&mut self, packet: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = packet;
        loop {
            let (data, behind) = rest.split_at(rest.len().min(SLICE_MAX_BYTES));
            if self.reply.len() + data.len() + SLICE_OVERHEAD_BYTES > REPLY_MAX_BYTES {
                self.finish(&mut each);
            }
            self.append(data, behind.is_empty());
            if behind.is_empty() {
                return;
            }
            rest = behind;
        }
    }

    /// Calls `each` with the rest, unless there is none. The batcher can then be used again.
    ///
    /// This is not the last reply: the caller adds one without slices, which says that no more follow.
    pub fn finish(&mut self, each: impl FnOnce(&[u8])) {
        if !self.reply.is_empty() {
            each(&self.reply);
            self.reply.clear();
        }
    }

    /// Appends a slice. Written by hand: a generated writer would make the reply in memory of its own,
    /// from which the caller would get a copy.
    fn append(&mut self, data: &[u8], ends_packet: bool) {
        const SLICES: u8 = tag(ReadBuffersResponse::SLICES_FIELD_NUMBER, 2);
        const DATA: u8 = tag(SliceMessage::DATA_FIELD_NUMBER, 2);
        const LAST: u8 = tag(SliceMessage::LAST_SLICE_FOR_PACKET_FIELD_NUMBER, 0);
        let last: &[u8] = if ends_packet { &[LAST, 1] } else { &[] };
        let mut length = [0; VARINT_MAX_BYTES];
        let length_bytes = encode_varint(data.len() as u64, &mut length);
        let slice_bytes = 1 + length_bytes + data.len() + last.len();
        self.reply.push(SLICES);
        append_varint(slice_bytes as u64, &mut self.reply);
        self.reply.push(DATA);
        self.reply.extend_from_slice(&length[..length_bytes]);
        self.reply.extend_from_slice(data);
        self.reply.extend_from_slice(last);
    }
}

/// Returns the tag of a field with a number below 16.
const fn tag(number: u32, wire_type: u8) -> u8 {
    assert!(number < 16, "the tag has one byte");
    (number as u8) << 3 | wire_type
}

/// A part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice<'a> {
    /// The bytes. They go behind those of the slice before it, unless that one ended its packet.
    pub data: &'a [u8],
    /// True if the packet ends with this slice.
    pub ends_packet: bool,
}

/// Returns the slices of a reply, for a consumer. Each is an error if it is malformed.
pub fn decode_slices(reply: &[u8]) -> impl Iterator<Item = Result<Slice<'_>, DecodeError>> {
    let slices = ReadBuffersResponseDecoder::new(reply).slices();
    slices.map(|slice| {
        let slice = slice?;
        Ok(Slice {
            data: slice.data()?.unwrap_or_default(),
            ends_packet: slice.last_slice_for_packet()?.unwrap_or_default(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FRAME_MAX_BYTES, FrameReader};
    use crate::wire::{Body, Frame};

    /// Returns the replies with these packets, after a round trip in frames.
    fn replies(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        let mut note = |reply: &[u8]| {
            let body = Body::Reply {
                reply: Some(reply),
                has_more: true,
            };
            let mut stream = Vec::new();
            let request_id = u64::MAX;
            Frame { request_id, body }.append_to(&mut stream);
            let mut reader = FrameReader::new();
            let mut rest = &stream[..];
            while !rest.is_empty() {
                assert_eq!(reader.next_frame(), Ok(None));
                let room = reader.room();
                let (part, behind) = rest.split_at(room.len().min(rest.len()));
                room[..part.len()].copy_from_slice(part);
                reader.received(part.len());
                rest = behind;
            }
            let frame = reader.next_frame().unwrap().expect("one frame");
            assert!(frame.len() <= FRAME_MAX_BYTES);
            let Body::Reply { reply, .. } = Frame::decode(frame).unwrap().body else {
                panic!("no reply");
            };
            replies.push(reply.expect("a success").to_vec());
        };
        let mut batcher = SliceBatcher::new();
        for packet in packets {
            batcher.push(packet, &mut note);
        }
        batcher.finish(&mut note);
        batcher.finish(|_| panic!("nothing is left"));
        assert_eq!(batcher.reply.capacity(), REPLY_MAX_BYTES, "it has grown");
        replies
    }

    fn joined(replies: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut packets = vec![Vec::new()];
        for slice in replies.iter().flat_map(|reply| decode_slices(reply)) {
            let slice = slice.unwrap();
            assert!(slice.data.len() <= SLICE_MAX_BYTES);
            packets
                .last_mut()
                .expect("at least one")
                .extend_from_slice(slice.data);
            if slice.ends_packet {
                packets.push(Vec::new());
            }
        }
        assert_eq!(
            packets.pop(),
            Some(Vec::new()),
            "the last packet has an end"
        );
        packets
    }

    fn packet(size_bytes: usize) -> Vec<u8> {
        (0..size_bytes).map(|index| (index % 251) as u8).collect()
    }

    #[test]
    fn slices_have_their_bytes() {
        let expected: &[u8] = b"\x12\x05\x0a\x01a\x10\x01\x12\x04\x0a\x00\x10\x01";
        assert_eq!(replies(&[b"a".to_vec(), vec![]]), [expected]);
    }

    #[test]
    fn packets_of_all_sizes_are_joined_again() {
        let sizes = [0, 1, SLICE_MAX_BYTES, SLICE_MAX_BYTES + 1, 1024 * 1024];
        for size_bytes in sizes {
            let packets = [packet(size_bytes)];
            assert!(joined(&replies(&packets)) == packets, "{size_bytes}");
        }
        let packets = sizes.map(packet);
        assert!(joined(&replies(&packets)) == packets);
    }

    #[test]
    fn a_reply_is_filled_before_the_next_begins() {
        let packets = vec![packet(1000); 1000];
        let replies = replies(&packets);
        let (last, full) = replies.split_last().expect("several");
        assert!(
            full.iter()
                .all(|reply| reply.len() + 1016 > REPLY_MAX_BYTES)
        );
        assert!(
            full.iter()
                .chain([last])
                .all(|reply| reply.len() <= REPLY_MAX_BYTES)
        );
        assert!(joined(&replies) == packets);
    }

    #[test]
    fn the_fullest_reply_fits_a_frame() {
        let fills = REPLY_MAX_BYTES - SLICE_OVERHEAD_BYTES - SLICE_MAX_BYTES;
        for less in 0..32 {
            let packets = [packet(SLICE_MAX_BYTES), packet(fills - less)];
            assert!(joined(&replies(&packets)) == packets);
        }
    }

    #[test]
    fn malformed_replies_are_errors_or_values() {
        let [reply] = &replies(&[packet(3), packet(0), packet(200)])[..] else {
            panic!("one reply");
        };
        for len in 0..reply.len() {
            let slices: Result<Vec<_>, _> = decode_slices(&reply[..len]).collect();
            // The reply is whole only between two slices.
            assert_eq!(slices.is_ok(), [0, 9, 15].contains(&len), "{len}");
        }
    }
}
