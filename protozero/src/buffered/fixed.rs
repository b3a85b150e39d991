//! A message in a fixed slice, and the error if it does not fit.

use core::fmt;
use core::marker::PhantomData;

use crate::message::Writer;
use crate::stream::{FixedSource, StreamWriter};

/// A buffer that holds one message of type `M` in a slice of the caller.
///
/// ```
/// use protozero::{Message, StaticBuffered};
///
/// let mut memory = [0; 16];
/// let mut buffer = StaticBuffered::<Message>::new(&mut memory);
/// buffer.message().append_uint32::<1>(7);
/// let len = buffer.finish()?;
/// assert_eq!(memory[..len], [0x08, 7]);
///
/// let mut buffer = StaticBuffered::<Message>::new(&mut memory);
/// buffer.message().append_string::<1>("longer than 16 bytes");
/// assert_eq!(buffer.finish().unwrap_err().needed_bytes, 22);
/// # Ok::<(), protozero::OverflowError>(())
/// ```
pub struct StaticBuffered<'b, M> {
    stream: StreamWriter<FixedSource<'b>>,
    capacity_bytes: usize,
    message_type: PhantomData<fn() -> M>,
}

impl<'b, M: Writer> StaticBuffered<'b, M> {
    /// Creates an empty message in `slice`.
    #[inline]
    #[must_use]
    pub fn new(slice: &'b mut [u8]) -> Self {
        let capacity_bytes = slice.len();
        Self {
            stream: FixedSource::stream(slice),
            capacity_bytes,
            message_type: PhantomData,
        }
    }

    /// Returns a writer of the message. Another call continues the same message.
    #[inline]
    pub fn message(&mut self) -> M::At<'_> {
        M::from_message(self.stream.message())
    }

    /// Ends the message and returns its length in bytes. The message begins at the start of the
    /// slice.
    ///
    /// The slice can be accessed again after the last use of this buffer.
    ///
    /// # Errors
    ///
    /// If the message did not fit. The slice then holds no valid message.
    #[inline]
    pub fn finish(&mut self) -> Result<usize, OverflowError> {
        self.stream.end_messages();
        if self.stream.source().overflowed() {
            return Err(OverflowError {
                needed_bytes: self.stream.written_bytes(),
                capacity_bytes: self.capacity_bytes,
            });
        }
        Ok(self.stream.written_bytes() as usize)
    }
}

impl<M: Writer> fmt::Debug for StaticBuffered<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticBuffered")
            .field("message", &M::NAME)
            .field("written_bytes", &self.stream.written_bytes())
            .field("capacity_bytes", &self.capacity_bytes)
            .finish()
    }
}

/// The error if a message does not fit into the slice of its [`StaticBuffered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverflowError {
    /// A size in bytes that is enough for the message. This may be more than the encoded message
    /// takes, by at most 4 bytes for each nested message.
    pub needed_bytes: u64,
    /// The size of the slice in bytes.
    pub capacity_bytes: usize,
}

impl fmt::Display for OverflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the message needs about {} bytes, but the buffer has only {}; pass a larger one",
            self.needed_bytes, self.capacity_bytes
        )
    }
}

impl core::error::Error for OverflowError {}
