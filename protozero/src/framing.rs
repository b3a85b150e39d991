//! Splitting of a byte stream, which arrives in pieces of any size, into messages.
//!
//! A frame is a length-delimited field: tag, length, and a message as the payload. A stream of
//! frames is the encoding of a message that has only one field, a repeated message. A trace file is
//! an example.

use alloc::vec::Vec;
use core::fmt;

use crate::error::DecodeError;
use crate::field::take_tag;
use crate::varint::take_varint;
use crate::wire::WireType;

/// The largest message that [`FrameReader::new`] accepts, in bytes: 64 MiB.
pub const FRAME_MAX_BYTES: usize = 64 << 20;

/// The largest capacity in bytes that an emptied buffer keeps; memory beyond this capacity is
/// freed.
const KEPT_BUFFER_BYTES: usize = 128 * 1024;

/// Splits a stream of bytes into messages.
///
/// [`FrameReader::append`] takes pieces of any size. A message that lies within one piece is
/// borrowed from the piece; only a message that spans several pieces is copied.
///
/// The first error is final: after an error, the reader cannot find the start of the next message.
///
/// ```
/// use protozero::FrameReader;
///
/// let stream = b"\x0a\x02hi\x0a\x05there";
/// let mut reader = FrameReader::new();
/// let mut messages = Vec::new();
/// for piece in stream.chunks(3) {
///     for frame in reader.append(piece) {
///         messages.push(frame?.payload.to_vec());
///     }
/// }
/// reader.finish()?;
/// assert_eq!(messages, [&b"hi"[..], b"there"]);
/// # Ok::<(), protozero::FramingError>(())
/// ```
#[derive(Debug)]
pub struct FrameReader {
    max_frame_bytes: usize,
    /// The beginning of a frame whose rest has not arrived yet.
    partial: Vec<u8>,
    /// A frame that was assembled from several pieces, while [`Frames`] borrows it.
    completed: Vec<u8>,
    /// The stream position of the first byte that is not yet part of a whole frame.
    position: u64,
    failed: Option<FramingError>,
}

/// One message of the stream, with its field number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The field number in the tag before the message.
    pub field: u32,
    /// The encoded message.
    pub payload: &'a [u8],
}

/// An iterator over the messages that a piece completed. It ends after an error. If the iterator is
/// dropped early, the remaining messages are lost.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    /// The frame that began in an earlier piece and is whole now; empty if there is none.
    completed: &'a [u8],
    /// Whole frames within this piece.
    whole: &'a [u8],
    /// The error that was found behind the whole frames.
    failed: Option<FramingError>,
}

/// The reason why a stream of bytes could not be split into messages.
///
/// Offsets are bytes from the start of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramingError {
    /// No message begins at `offset`: the tag is invalid or its wire type is not length-delimited.
    NotAMessage {
        /// Expected start of the frame.
        offset: u64,
    },
    /// The tag or length of the message at `offset` is a varint of more than 64 bits.
    VarintTooLong {
        /// Start of the frame.
        offset: u64,
    },
    /// The message at `offset` is larger than the reader's limit.
    TooLong {
        /// Start of the frame.
        offset: u64,
        /// The size that the frame announces.
        message_bytes: u64,
        /// The largest size that the reader accepts.
        max_frame_bytes: usize,
    },
    /// The stream ended inside the frame at `offset`.
    Truncated {
        /// Start of the frame.
        offset: u64,
    },
}

impl FrameReader {
    /// Creates a reader of a stream whose messages have at most [`FRAME_MAX_BYTES`].
    #[must_use]
    pub const fn new() -> Self {
        Self::with_max_frame_bytes(FRAME_MAX_BYTES)
    }

    /// Creates a reader of a stream whose messages have at most `max_frame_bytes`. The reader
    /// allocates memory for the bytes that arrive, not for the size that a message announces.
    #[must_use]
    pub const fn with_max_frame_bytes(max_frame_bytes: usize) -> Self {
        Self {
            max_frame_bytes,
            partial: Vec::new(),
            completed: Vec::new(),
            position: 0,
            failed: None,
        }
    }

    /// Takes the next piece of the stream, and iterates over the messages that are whole now.
    ///
    /// The last item may be an error. Every later call yields only this error.
    pub fn append<'a>(&'a mut self, piece: &'a [u8]) -> Frames<'a> {
        empty(&mut self.completed);
        let whole = match self.failed {
            None => self.split(piece).unwrap_or_else(|(whole, error)| {
                self.failed = Some(error);
                whole
            }),
            Some(_) => &[],
        };
        Frames {
            completed: &self.completed,
            whole,
            failed: self.failed,
        }
    }

    /// Ends the stream.
    ///
    /// # Errors
    ///
    /// If the stream ended inside a frame, or if an earlier call found an error.
    pub fn finish(self) -> Result<(), FramingError> {
        match self.failed {
            Some(error) => Err(error),
            None if self.partial.is_empty() => Ok(()),
            None => Err(FramingError::Truncated {
                offset: self.position,
            }),
        }
    }

    /// Splits the piece into the end of the partial frame, whole frames, and the start of another
    /// frame. Returns the whole frames. An error comes with the whole frames before it.
    fn split<'a>(&mut self, piece: &'a [u8]) -> Result<&'a [u8], (&'a [u8], FramingError)> {
        let mut rest = piece;
        if !self.partial.is_empty()
            && !self.complete(&mut rest).map_err(|error| (&[][..], error))?
        {
            return Ok(&[]);
        }
        let mut whole_bytes = 0;
        loop {
            let (whole, tail) = rest.split_at(whole_bytes);
            let header = self.header(tail).map_err(|error| (whole, error))?;
            match header.map(|header| header.frame_bytes()) {
                Some(frame_bytes) if frame_bytes <= tail.len() => {
                    whole_bytes += frame_bytes;
                    self.position += frame_bytes as u64;
                }
                _ => {
                    self.partial.extend_from_slice(tail);
                    return Ok(whole);
                }
            }
        }
    }

    /// Moves bytes from the front of `rest` to the partial frame. Returns true if the frame is
    /// whole now, and has moved to `completed`.
    fn complete(&mut self, rest: &mut &[u8]) -> Result<bool, FramingError> {
        let header = loop {
            if let Some(header) = self.header(&self.partial)? {
                break header;
            }
            let Some((byte, after)) = rest.split_first() else {
                return Ok(false);
            };
            self.partial.push(*byte);
            *rest = after;
        };
        let missing = header.frame_bytes() - self.partial.len();
        let (now, after) = rest.split_at(missing.min(rest.len()));
        self.partial.extend_from_slice(now);
        *rest = after;
        if now.len() < missing {
            return Ok(false);
        }
        self.position += self.partial.len() as u64;
        core::mem::swap(&mut self.partial, &mut self.completed);
        Ok(true)
    }

    /// Parses the header at the front of `bytes`. Returns `None` if the header is incomplete.
    fn header(&self, bytes: &[u8]) -> Result<Option<Header>, FramingError> {
        let offset = self.position;
        let header = match Header::parse(bytes) {
            Ok(header) => header,
            Err(DecodeError::Truncated { .. }) => return Ok(None),
            Err(DecodeError::VarintTooLong { .. }) => {
                return Err(FramingError::VarintTooLong { offset });
            }
            Err(_) => return Err(FramingError::NotAMessage { offset }),
        };
        let message_bytes = header.message_bytes;
        if message_bytes > self.max_frame_bytes as u64 {
            return Err(FramingError::TooLong {
                offset,
                message_bytes,
                max_frame_bytes: self.max_frame_bytes,
            });
        }
        Ok(Some(header))
    }
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FramingError>;

    fn next(&mut self) -> Option<Self::Item> {
        Frame::take(&mut self.completed)
            .or_else(|| Frame::take(&mut self.whole))
            .map(Ok)
            .or_else(|| self.failed.take().map(Err))
    }
}

impl<'a> Frame<'a> {
    /// Takes a frame from the front of `rest`, which holds only whole frames. Returns `None` if
    /// `rest` is empty.
    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let header = Header::parse(rest).ok()?;
        let (frame, after) = rest.split_at_checked(header.frame_bytes())?;
        *rest = after;
        Some(Self {
            field: header.field,
            payload: &frame[header.header_bytes..],
        })
    }
}

/// The tag and length before a message.
struct Header {
    field: u32,
    header_bytes: usize,
    message_bytes: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes;
        let (field, wire_type) = take_tag(&mut rest, 0)?;
        if wire_type != WireType::LengthDelimited as u8 {
            return Err(DecodeError::WireTypeMismatch { field });
        }
        let message_bytes = take_varint(&mut rest, 0)?;
        Ok(Self {
            field,
            header_bytes: bytes.len() - rest.len(),
            message_bytes,
        })
    }

    /// Returns the bytes of header and message together, or `usize::MAX` if that overflows.
    fn frame_bytes(&self) -> usize {
        let message_bytes = usize::try_from(self.message_bytes).unwrap_or(usize::MAX);
        self.header_bytes.saturating_add(message_bytes)
    }
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAMessage { offset } => {
                write!(f, "no message begins at offset {offset} of the stream")
            }
            Self::VarintTooLong { offset } => write!(
                f,
                "the message at offset {offset} of the stream has a tag or length of more than 64 bits"
            ),
            Self::TooLong {
                offset,
                message_bytes,
                max_frame_bytes,
            } => write!(
                f,
                "the message at offset {offset} of the stream has {message_bytes} bytes, more \
                 than the limit of {max_frame_bytes}; raise the limit if the message is valid"
            ),
            Self::Truncated { offset } => {
                write!(f, "the stream ends inside the message at offset {offset}")
            }
        }
    }
}

impl core::error::Error for FramingError {}

/// Empties a buffer, and frees the memory that a large message needed.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_BUFFER_BYTES);
}
