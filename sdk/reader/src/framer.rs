//! Packets in a stream of bytes, and the way back to them after damage.

use std::io::{self, Read};

use crate::damage::DamageKind;
use crate::plausible::is_plausible;
use crate::stream::ByteStream;

/// The tag before each packet: field 1, length-delimited.
const PACKET_TAG: u8 = 0x0a;
/// Longest tag and length of a packet.
const HEADER_MAX_BYTES: usize = 11;
/// Longest packet that is believed in.
const PACKET_MAX_BYTES: u64 = protozero::MAX_FRAME_BYTES as u64;
/// Longest packet that is believed in while the way back is sought.
const SOUGHT_MAX_BYTES: u64 = 1 << 20;

/// Cuts a stream into packets.
#[derive(Debug)]
pub(super) struct Framer<R> {
    pub(super) stream: ByteStream<R>,
    damage: Option<Search>,
    /// No more than so many bytes are searched.
    pub(super) search_max_bytes: u64,
}

/// What comes next in a stream.
#[derive(Debug)]
pub(super) enum Framed {
    /// A packet: the last bytes that the stream has consumed.
    Packet {
        /// Position of its tag.
        offset: u64,
        len: usize,
    },
    Gap {
        offset: u64,
        length_bytes: u64,
        kind: DamageKind,
    },
}

/// Bytes that hold no packet have been found.
#[derive(Debug)]
struct Search {
    from: u64,
    kind: DamageKind,
}

/// What stands at the front of some bytes.
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

    /// Whether a packet comes next, after damage.
    pub(super) fn is_at_packet(&self) -> bool {
        self.stream.available().first() == Some(&PACKET_TAG)
    }

    /// The packet of `len` bytes that was cut last is none: what follows its tag is searched for
    /// packets. To be called before anything else is read.
    pub(super) fn reject(&mut self, offset: u64, kind: DamageKind) {
        let behind_tag = self.stream.offset() - offset - 1;
        self.stream.step_back(behind_tag as usize);
        self.damage = Some(Search { from: offset, kind });
    }
}

impl<R: Read> Framer<R> {
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<Framed>> {
        if self.damage.is_none()
            && let Header::Packet { header_bytes, len } = header(self.stream.available())
            && let Ok(len) = usize::try_from(len)
            && len <= self.stream.available().len() - header_bytes
        {
            let offset = self.stream.offset();
            self.stream.consume(header_bytes + len);
            return Ok(Some(Framed::Packet { offset, len }));
        }
        self.next_with_reading()
    }

    #[cold]
    #[inline(never)]
    fn next_with_reading(&mut self) -> io::Result<Option<Framed>> {
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
                    return Ok(Some(Framed::Packet {
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

    /// Skips to the next bytes that look like packets.
    fn search(&mut self) -> io::Result<Option<Framed>> {
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
        Ok(search.map(|search| Framed::Gap {
            offset: from,
            length_bytes,
            kind: search.kind,
        }))
    }

    /// Whether what comes next looks like a packet, and what follows it like another one, or the
    /// end.
    fn is_way_back(&mut self) -> io::Result<bool> {
        let Some(first_bytes) = self.plausible_frame_bytes(0)? else {
            return Ok(false);
        };
        Ok(!self.stream.want(first_bytes + 1)?
            || self.plausible_frame_bytes(first_bytes)?.is_some())
    }

    /// The size of the frame that begins after `skipped` bytes, if there is a plausible one.
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

/// What stands at the front of `bytes`.
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

/// A header whose length has several bytes.
fn long_header(length: &[u8]) -> Header {
    let mut len = 0;
    for (index, byte) in length.iter().enumerate().take(HEADER_MAX_BYTES - 1) {
        // The tenth byte holds the topmost bit alone.
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
