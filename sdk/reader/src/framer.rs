//! Splits a stream of bytes into packets, and finds the next packet after damage.

use std::io::{self, Read};

use crate::damage::DamageKind;
use crate::plausible::is_plausible;
use crate::stream::ByteStream;

/// The tag before each packet: field 1, length-delimited.
const PACKET_TAG: u8 = 0x0a;
/// The maximum size of a packet's tag and length.
const HEADER_MAX_BYTES: usize = 11;
/// The maximum size of a packet. A longer one is damage.
const PACKET_MAX_BYTES: u64 = protozero::FRAME_MAX_BYTES as u64;
/// The maximum size of a packet that ends the search after damage.
const SOUGHT_MAX_BYTES: u64 = 1 << 20;

/// Splits a stream into packets.
#[derive(Debug)]
pub(super) struct Framer<R> {
    pub(super) stream: ByteStream<R>,
    damage: Option<Search>,
    /// The maximum number of damaged bytes that are searched at a time.
    pub(super) search_max_bytes: u64,
}

/// A packet, or a range of bytes that holds none.
#[derive(Debug)]
pub(super) enum FrameOrGap {
    /// A packet: the last `len` bytes that the stream has consumed.
    Packet {
        /// The offset of the packet's tag.
        offset: u64,
        len: usize,
    },
    Gap {
        offset: u64,
        length_bytes: u64,
        kind: DamageKind,
    },
}

/// A search for the next packet after damage.
#[derive(Debug)]
struct Search {
    from: u64,
    kind: DamageKind,
}

/// The tag and length of a packet, if some bytes begin with them.
enum Header {
    Packet { header_bytes: usize, len: u64 },
    Incomplete,
    NoPacket,
}

impl<R> Framer<R> {
    pub(super) const fn new(source: R, search_max_bytes: u64) -> Self {
        Self {
            stream: ByteStream::new(source),
            damage: None,
            search_max_bytes,
        }
    }

    /// Returns true if the next byte is the tag of a packet, after damage.
    pub(super) fn is_at_packet(&self) -> bool {
        self.stream.available().first() == Some(&PACKET_TAG)
    }

    /// Rejects the last packet: the bytes behind its tag are searched for packets again. Must be
    /// called before anything else is read.
    pub(super) fn reject(&mut self, offset: u64, kind: DamageKind) {
        let behind_tag = self.stream.offset() - offset - 1;
        self.stream.step_back(behind_tag as usize);
        self.damage = Some(Search { from: offset, kind });
    }
}

impl<R: Read> Framer<R> {
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<FrameOrGap>> {
        if self.damage.is_none()
            && let Header::Packet { header_bytes, len } = header(self.stream.available())
            && let Ok(len) = usize::try_from(len)
            && len <= self.stream.available().len() - header_bytes
        {
            let offset = self.stream.offset();
            self.stream.consume(header_bytes + len);
            return Ok(Some(FrameOrGap::Packet { offset, len }));
        }
        self.next_with_reading()
    }

    #[cold]
    #[inline(never)]
    fn next_with_reading(&mut self) -> io::Result<Option<FrameOrGap>> {
        if self.damage.is_some() {
            return self.search();
        }
        if !self.stream.want(1)? {
            return Ok(None);
        }
        self.stream.want(HEADER_MAX_BYTES)?;
        let offset = self.stream.offset();
        let kind = match header(self.stream.available()) {
            Header::NoPacket => DamageKind::NoPacket,
            Header::Incomplete => DamageKind::Truncated { missing_bytes: 1 },
            Header::Packet { len, .. } if len > PACKET_MAX_BYTES => {
                DamageKind::TooLong { length_bytes: len }
            }
            Header::Packet { header_bytes, len } => {
                let frame_bytes = header_bytes + len as usize;
                if self.stream.want(frame_bytes)? {
                    self.stream.consume(frame_bytes);
                    return Ok(Some(FrameOrGap::Packet {
                        offset,
                        len: len as usize,
                    }));
                }
                let there_bytes = self.stream.available().len();
                DamageKind::Truncated {
                    missing_bytes: (frame_bytes - there_bytes) as u64,
                }
            }
        };
        self.stream.consume(1);
        self.damage = Some(Search { from: offset, kind });
        self.search()
    }

    /// Skips to the next bytes that look like packets. Returns the skipped range.
    fn search(&mut self) -> io::Result<Option<FrameOrGap>> {
        let Some(Search { from, .. }) = self.damage else {
            return Ok(None);
        };
        while self.stream.offset() - from < self.search_max_bytes && self.stream.want(1)? {
            let available = self.stream.available();
            match available.iter().position(|byte| *byte == PACKET_TAG) {
                None => self.stream.consume(available.len()),
                Some(skipped) => {
                    self.stream.consume(skipped);
                    if self.is_way_back()? {
                        break;
                    }
                    self.stream.consume(1);
                }
            }
        }
        let length_bytes = self.stream.offset() - from;
        let search = self.damage.take();
        Ok(search.map(|search| FrameOrGap::Gap {
            offset: from,
            length_bytes,
            kind: search.kind,
        }))
    }

    /// Returns true if the next bytes look like a packet, and the bytes behind it like another
    /// packet or the end of the stream.
    fn is_way_back(&mut self) -> io::Result<bool> {
        let Some(first_bytes) = self.plausible_frame_bytes(0)? else {
            return Ok(false);
        };
        Ok(!self.stream.want(first_bytes + 1)?
            || self.plausible_frame_bytes(first_bytes)?.is_some())
    }

    /// Returns the size of the frame (tag, length and packet) that begins after `skipped` bytes, if
    /// its bytes look like a packet.
    fn plausible_frame_bytes(&mut self, skipped: usize) -> io::Result<Option<usize>> {
        self.stream.want(skipped + HEADER_MAX_BYTES)?;
        let available = self.stream.available();
        let (header_bytes, len) = match header(available.get(skipped..).unwrap_or_default()) {
            Header::Packet { header_bytes, len } if len <= SOUGHT_MAX_BYTES => {
                (header_bytes, len as usize)
            }
            _ => return Ok(None),
        };
        let packet_at = skipped + header_bytes;
        if !self.stream.want(packet_at + len)? {
            return Ok(None);
        }
        let packet = &self.stream.available()[packet_at..packet_at + len];
        Ok(is_plausible(packet).then_some(header_bytes + len))
    }
}

/// Decodes the tag and length at the front of `bytes`.
#[inline(always)]
fn header(bytes: &[u8]) -> Header {
    match bytes {
        [PACKET_TAG, len @ ..0x80, ..] => Header::Packet {
            header_bytes: 2,
            len: u64::from(*len),
        },
        [PACKET_TAG, rest @ ..] => long_header(rest),
        [] => Header::Incomplete,
        _ => Header::NoPacket,
    }
}

/// Decodes a length of several bytes.
fn long_header(length: &[u8]) -> Header {
    let mut len = 0;
    for (index, byte) in length.iter().enumerate().take(HEADER_MAX_BYTES - 1) {
        // The tenth byte holds only the topmost bit.
        if index == HEADER_MAX_BYTES - 2 && *byte > 1 {
            return Header::NoPacket;
        }
        len |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Header::Packet {
                header_bytes: index + 2,
                len,
            };
        }
    }
    Header::Incomplete
}
