//! Reads the packets of a trace from a file of any size.

use std::fs::File;
use std::io::{self, Empty, Read};
use std::path::Path;

use crate::bundle::{self, FoundBundle};
use crate::damage::{Damage, DamageKind};
use crate::error::{FileKind, ReadError};
use crate::framer::{FrameOrGap, Framer};
use crate::place::PacketPlace;

/// A file without a packet in this many bytes at its start is not a trace.
const FIRST_PACKET_WITHIN_BYTES: u64 = 1 << 20;
/// The number of bytes from which the kind of a file is recognized.
const HEAD_BYTES: usize = 64;

/// Reads the packets of a trace from a file or another source of bytes.
///
/// Compressed packets are unpacked and come out one by one. Memory is bounded by the largest packet
/// (at most 64 MiB) or the largest bundle of compressed packets (at most 128 MiB).
///
/// ```
/// use tracezero::reader::{PacketReader, PacketItem};
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "here");
/// let (trace, _) = session.finish();
///
/// let mut packets = PacketReader::new(&trace[..]);
/// let mut bytes = 0;
/// while let Some(item) = packets.next()? {
///     match item {
///         PacketItem::Packet(packet) => bytes += packet.bytes.len(),
///         PacketItem::Damage(damage) => println!("{damage}"),
///     }
/// }
/// assert!(bytes < trace.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PacketReader<R> {
    file: Framer<R>,
    /// The packets of the current bundle, unpacked.
    bundle: Framer<Empty>,
    is_in_bundle: bool,
    /// The packet that was read last.
    last: LastPacket,
    next_index: u64,
    is_first: bool,
}

/// An item of a trace: a packet or damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketItem<'a> {
    /// A packet.
    Packet(RawPacket<'a>),
    /// Bytes that are not a packet.
    Damage(Damage),
}

/// An encoded packet, as it is in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawPacket<'a> {
    /// The place of the packet in the trace.
    pub place: PacketPlace,
    /// The encoded `TracePacket`.
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, Default)]
struct LastPacket {
    place: PacketPlace,
    /// The size of the packet; 0 if there is none.
    len: usize,
    /// The size of the packet with its tag and length.
    frame_len: usize,
}

impl LastPacket {
    fn forget(&mut self) {
        self.len = 0;
        self.frame_len = 0;
    }
}

/// A result of [`PacketReader::step`]. The packet itself is [`PacketReader::last`].
pub(super) enum PacketStep {
    Packet,
    Damage(Damage),
}

impl PacketReader<File> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        File::open(path)
            .map(Self::new)
            .map_err(|source| ReadError::Open {
                path: path.to_owned(),
                source,
            })
    }
}

impl<R> PacketReader<R> {
    /// Creates a reader of a source of bytes. The source needs no buffer of its own.
    pub const fn new(source: R) -> Self {
        Self {
            file: Framer::new(source, FIRST_PACKET_WITHIN_BYTES),
            bundle: Framer::new(io::empty(), u64::MAX),
            is_in_bundle: false,
            last: LastPacket {
                place: PacketPlace {
                    index: 0,
                    offset: 0,
                    unpacked_offset: None,
                },
                len: 0,
                frame_len: 0,
            },
            next_index: 0,
            is_first: true,
        }
    }

    /// Returns the packet that was read last. Its bytes are empty if damage was read last.
    #[must_use]
    #[inline]
    pub fn last(&self) -> RawPacket<'_> {
        let bytes = if self.is_in_bundle {
            self.bundle.stream.consumed(self.last.len)
        } else {
            self.file.stream.consumed(self.last.len)
        };
        RawPacket {
            place: self.last.place,
            bytes,
        }
    }

    /// Returns the frame of the packet that was read last: the tag, the length and the packet, as
    /// they are in the file or among the unpacked bytes. Returns an empty slice if damage was read
    /// last.
    #[must_use]
    pub fn last_frame(&self) -> &[u8] {
        if self.is_in_bundle {
            self.bundle.stream.consumed(self.last.frame_len)
        } else {
            self.file.stream.consumed(self.last.frame_len)
        }
    }

    /// Returns the number of bytes of the file that have been read.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.file.stream.offset()
    }

    /// Returns the number of packets read so far.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.next_index
    }

    /// Rejects the packet that was read last as malformed. The next call of [`next`](Self::next)
    /// reports its bytes as damage and searches them for packets. Call this if you decode packets
    /// yourself and the packet cannot be decoded.
    pub fn reject_last(&mut self, error: protozero::DecodeError) {
        let kind = DamageKind::MalformedPacket { error };
        let place = self.last.place;
        if self.last.len == 0 {
            return;
        }
        match place.unpacked_offset {
            Some(offset) => self.bundle.reject(u64::from(offset), kind),
            None => self.file.reject(place.offset, kind),
        }
        self.next_index -= 1;
        self.last.forget();
    }
}

impl<R: Read> PacketReader<R> {
    /// Reads the next packet, or the damage in its place. Returns `None` at the end of the trace.
    ///
    /// # Errors
    ///
    /// If the source fails, is not a trace, or is compressed in a format that this build cannot
    /// unpack.
    // This type is not an `Iterator`, because items of an iterator cannot borrow from the iterator.
    #[expect(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<Option<PacketItem<'_>>, ReadError> {
        Ok(match self.step()? {
            None => None,
            Some(PacketStep::Packet) => Some(PacketItem::Packet(self.last())),
            Some(PacketStep::Damage(damage)) => Some(PacketItem::Damage(damage)),
        })
    }

    #[inline]
    pub(super) fn step(&mut self) -> Result<Option<PacketStep>, ReadError> {
        self.last.forget();
        if self.is_in_bundle
            && let Some(step) = self.step_in_bundle()?
        {
            return Ok(Some(step));
        }
        if self.is_first {
            self.check_file_kind()?;
        }
        loop {
            let framed = self.file.next();
            match framed.map_err(|source| self.io_error(source))? {
                None => return Ok(None),
                Some(FrameOrGap::Packet { offset, len }) => {
                    self.last.place.offset = offset;
                    self.last.place.unpacked_offset = None;
                    self.last.len = len;
                    self.last.frame_len = (self.file.stream.offset() - offset) as usize;
                    let Some(found) = bundle::find(self.file.stream.consumed(len)) else {
                        self.count();
                        return Ok(Some(PacketStep::Packet));
                    };
                    if let Some(step) = self.open_bundle(found)? {
                        return Ok(Some(step));
                    }
                    if let Some(step) = self.step_in_bundle()? {
                        return Ok(Some(step));
                    }
                    // An empty bundle is skipped.
                    self.last.forget();
                }
                Some(FrameOrGap::Gap {
                    offset,
                    length_bytes,
                    kind,
                }) => {
                    let is_truncated = matches!(kind, DamageKind::Truncated { .. });
                    if self.next_index == 0 && !is_truncated && !self.file.is_at_packet() {
                        return Err(ReadError::NotATrace { found: None });
                    }
                    return Ok(Some(PacketStep::Damage(Damage {
                        offset,
                        unpacked_offset: None,
                        length_bytes,
                        after_packet: self.next_index.checked_sub(1),
                        kind,
                    })));
                }
            }
        }
    }

    #[inline]
    fn count(&mut self) {
        self.last.place.index = self.next_index;
        self.file.search_max_bytes = u64::MAX;
        self.next_index += 1;
    }

    /// Reads the next packet of the bundle. Returns `None` at its end.
    fn step_in_bundle(&mut self) -> Result<Option<PacketStep>, ReadError> {
        let framed = self.bundle.next();
        let step = match framed.map_err(|source| self.io_error(source))? {
            None => {
                self.is_in_bundle = false;
                return Ok(None);
            }
            Some(FrameOrGap::Packet { offset, len }) => {
                // Bundles are shorter than 4 GiB.
                self.last.place.unpacked_offset = u32::try_from(offset).ok();
                self.last.len = len;
                self.last.frame_len = (self.bundle.stream.offset() - offset) as usize;
                self.count();
                if bundle::find(self.bundle.stream.consumed(len)).is_some() {
                    let kind = DamageKind::NestedBundle;
                    self.last.forget();
                    return Ok(Some(PacketStep::Damage(Damage::of_packet(
                        self.last.place,
                        len as u64,
                        kind,
                    ))));
                }
                PacketStep::Packet
            }
            Some(FrameOrGap::Gap {
                offset,
                length_bytes,
                kind,
            }) => PacketStep::Damage(Damage {
                offset: self.last.place.offset,
                unpacked_offset: Some(offset),
                length_bytes,
                after_packet: self.next_index.checked_sub(1),
                kind,
            }),
        };
        Ok(Some(step))
    }

    /// Unpacks the packet that was read last from the file, which is a bundle. Returns the damage
    /// if unpacking fails.
    #[cold]
    fn open_bundle(&mut self, found: FoundBundle) -> Result<Option<PacketStep>, ReadError> {
        let packet = self.file.stream.consumed(self.last.len);
        let mut unpacked = Ok(Ok(()));
        self.bundle.stream.replace(|out| {
            unpacked = found.unpack(packet, out);
        });
        let kind = match unpacked {
            Ok(Ok(())) => {
                self.is_in_bundle = true;
                return Ok(None);
            }
            Ok(Err(error)) => DamageKind::Compressed {
                reason: error.to_string(),
            },
            Err(feature) => {
                let offset = self.last.place.offset;
                return Err(ReadError::NoDecompressor { feature, offset });
            }
        };
        let place = self.last.place;
        let length_bytes = self.file.stream.offset() - place.offset;
        self.last.forget();
        Ok(Some(PacketStep::Damage(Damage {
            offset: place.offset,
            unpacked_offset: None,
            length_bytes,
            after_packet: self.next_index.checked_sub(1),
            kind,
        })))
    }

    /// Fails if the file is recognized as another kind than a trace.
    #[cold]
    fn check_file_kind(&mut self) -> Result<(), ReadError> {
        self.is_first = false;
        let wanted = self.file.stream.want(HEAD_BYTES);
        wanted.map_err(|source| self.io_error(source))?;
        let head = self.file.stream.available();
        // The tag of a packet is also a line feed, which other kinds of files may begin with. Such
        // a file is treated as a trace.
        if head.starts_with(b"\n") {
            return Ok(());
        }
        match FileKind::of(head) {
            None => Ok(()),
            found => Err(ReadError::NotATrace { found }),
        }
    }

    #[cold]
    fn io_error(&self, source: io::Error) -> ReadError {
        ReadError::Io {
            offset: self.file.stream.offset(),
            source,
        }
    }
}
