//! Messages in a stream of bytes that arrive in pieces of any size.
//!
//! A frame is a length-delimited field: tag, length, and a message as the payload. A trace file is
//! such a stream, and so is every message that has nothing but one repeated message field.

use alloc::vec::Vec;
use core::fmt;

use crate::error::DecodeError;
use crate::field::take_tag;
use crate::varint::take_varint;
use crate::wire::WireType;

/// Largest message that a [`FrameReader`] takes unless it is told otherwise, in bytes: 64 MiB.
pub const MAX_FRAME_BYTES: usize = 64 << 20;

/// Larger buffers are given back once they are empty, in bytes.
const KEPT_BUFFER_BYTES: usize = 128 * 1024;

/// Cuts a stream of bytes into its messages.
///
/// Bytes come in with [`FrameReader::append`], in pieces of any size. Messages that lie whole in one
/// piece are lent out from there; only one that is spread over several pieces is copied together.
///
/// The first error is final: there is no way to find the next message after it.
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
    /// The beginning of a frame whose rest has not arrived.
    partial: Vec<u8>,
    /// A frame that was put together from several pieces, while it is lent out.
    completed: Vec<u8>,
    /// Stream position of the first byte that is not part of a whole frame.
    position: u64,
    failed: Option<FramingError>,
}

/// One message of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The field number before it.
    pub field: u32,
    /// The message.
    pub payload: &'a [u8],
}

/// Iterator over the messages that a piece completed. Those that are not asked for are skipped.
/// After an error it ends.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    /// One whole frame, or nothing.
    completed: &'a [u8],
    /// Whole frames.
    whole: &'a [u8],
    /// What comes after them.
    failed: Option<FramingError>,
}

/// Why a stream of bytes is not one of messages.
///
/// Offsets count from the start of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramingError {
    /// At `offset` there is no message: the tag is invalid or of another wire type.
    NotAMessage {
        /// Where the frame should begin.
        offset: u64,
    },
    /// Tag or length of the message at `offset` is a varint of more than 64 bits.
    VarintTooLong {
        /// Start of the frame.
        offset: u64,
    },
    /// The message at `offset` exceeds the reader's limit.
    TooLong {
        /// Start of the frame.
        offset: u64,
        /// Size that the frame announces.
        message_bytes: u64,
        /// Size that the reader allows.
        max_frame_bytes: usize,
    },
    /// The stream ended inside the frame at `offset`.
    Truncated {
        /// Start of the frame.
        offset: u64,
    },
}

impl FrameReader {
    /// A reader at the start of a stream, for messages of at most [`MAX_FRAME_BYTES`].
    #[must_use]
    pub const fn new() -> Self {
        Self::with_max_frame_bytes(MAX_FRAME_BYTES)
    }

    /// A reader at the start of a stream, for messages of at most `max_frame_bytes`. A message takes
    /// memory as it arrives, not by the size that it announces.
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

    /// Takes the next piece of the stream, and returns the messages that are whole now.
    ///
    /// Among them may be an error, as the last item. From then on, it is all that comes.
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
    /// If it ended inside a frame, or had failed before.
    pub fn finish(self) -> Result<(), FramingError> {
        match self.failed {
            Some(error) => Err(error),
            None if self.partial.is_empty() => Ok(()),
            None => Err(FramingError::Truncated {
                offset: self.position,
            }),
        }
    }

    /// Splits the piece in what completes a frame, whole frames, and the start of one. Returns the
    /// whole frames; with an error, those before it.
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

    /// Moves bytes from the front of `rest` to the partial frame, and it to `completed` when it is
    /// whole. Returns whether it is.
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

    /// The header at the front of `bytes`; `None` if it is not whole.
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
    /// Takes a frame from the front of `rest`, which holds whole frames only; `None` at its end.
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

/// What stands before a message.
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

    /// Bytes of header and message. More than there can be if they exceed the address space.
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
                "the message at offset {offset} of the stream has {message_bytes} bytes, but the \
                 reader takes only {max_frame_bytes}: allow larger ones if it is meant to be there"
            ),
            Self::Truncated { offset } => {
                write!(
                    f,
                    "the stream ends inside the message at its offset {offset}"
                )
            }
        }
    }
}

impl core::error::Error for FramingError {}

/// Empties a buffer, and gives back the memory that a large message took.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_BUFFER_BYTES);
}
