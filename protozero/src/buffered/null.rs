//! A message that is discarded.

use core::fmt;
use core::marker::PhantomData;

use crate::message::Writer;
use crate::stream::{NullSource, StreamWriter};

/// A buffer that discards its message of type `M`, for code that writes a message even if nobody
/// reads it. It needs no memory for the message.
///
/// ```
/// use protozero::{Message, NullBuffered};
///
/// let mut buffer = NullBuffered::<Message>::new();
/// buffer.message().append_uint32::<1>(7);
/// ```
pub struct NullBuffered<M> {
    stream: StreamWriter<NullSource>,
    message_type: PhantomData<fn() -> M>,
}

impl<M: Writer> NullBuffered<M> {
    /// Creates a message that is discarded.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stream: StreamWriter::new(NullSource),
            message_type: PhantomData,
        }
    }

    /// Returns a writer of the message. Another call continues the same message.
    #[inline]
    pub fn message(&mut self) -> M::At<'_> {
        M::from_message(self.stream.message())
    }
}

impl<M: Writer> Default for NullBuffered<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Writer> fmt::Debug for NullBuffered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NullBuffered")
            .field("message", &M::NAME)
            .finish_non_exhaustive()
    }
}
