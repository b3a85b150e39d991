//! A message that nobody wants.

use core::fmt;
use core::marker::PhantomData;

use crate::message::Writer;
use crate::stream::{NullSource, StreamWriter};

/// A message of type `M` that goes nowhere, for code that writes one whether or not somebody wants
/// it. It takes no memory for what is written.
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
    /// A message that goes nowhere.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stream: StreamWriter::new(NullSource),
            message_type: PhantomData,
        }
    }

    /// The message. Called again, it goes on with the same message.
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
