//! A message in a growing heap buffer.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::message::Writer;
use crate::stream::{HeapSource, StreamWriter};

/// The size of the first heap block of a [`HeapBuffered`], in bytes.
const FIRST_BLOCK_BYTES: usize = 4096;

/// A buffer on the heap that holds one message of type `M`, and grows with the message.
///
/// ```
/// use protozero::{HeapBuffered, Message};
///
/// let mut buffer = HeapBuffered::<Message>::new();
/// buffer.message().append_uint32::<1>(7);
/// assert_eq!(buffer.to_vec(), [0x08, 7]);
///
/// buffer.reset(); // keeps the memory
/// buffer.message().append_uint32::<1>(8);
/// assert_eq!(buffer.to_vec(), [0x08, 8]);
/// ```
pub struct HeapBuffered<M> {
    stream: StreamWriter<HeapSource>,
    message_type: PhantomData<fn() -> M>,
}

impl<M: Writer> HeapBuffered<M> {
    /// Creates an empty message. The first block of 4 KiB is allocated at once.
    #[must_use]
    pub fn new() -> Self {
        Self::with_first_block(FIRST_BLOCK_BYTES)
    }

    /// Creates an empty message whose first block has `first_block_bytes` bytes (at least 4). Each
    /// following block is twice as large as the one before, up to 128 KiB. If the first block is
    /// larger than that, all blocks have its size.
    #[must_use]
    pub fn with_first_block(first_block_bytes: usize) -> Self {
        let mut stream = StreamWriter::new(HeapSource::new(first_block_bytes));
        stream.next_range();
        Self {
            stream,
            message_type: PhantomData,
        }
    }

    /// Returns a writer of the message. Another call continues the same message.
    #[inline]
    pub fn message(&mut self) -> M::At<'_> {
        M::from_message(self.stream.message())
    }

    /// Ends messages that leaked writers left open, and returns the encoded message as a sequence
    /// of slices, one per heap block.
    pub fn slices(&mut self) -> impl Iterator<Item = &[u8]> {
        self.stream.end_messages();
        self.stream.source().slices(self.stream.used_bytes())
    }

    /// Returns the encoded message, copied into one vector. Another call of
    /// [`message`](Self::message) continues the message.
    ///
    /// Unlike most methods named `to_`, this one needs `&mut self`: it first ends messages that
    /// leaked writers left open.
    pub fn to_vec(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.slices().map(<[u8]>::len).sum());
        for slice in self.slices() {
            bytes.extend_from_slice(slice);
        }
        bytes
    }

    /// Makes the message empty again. The first block is kept, so the next message allocates
    /// nothing if it fits into that block.
    #[inline]
    pub fn reset(&mut self) {
        if self.stream.source().is_one_block() {
            return self.stream.rewind_range();
        }
        self.stream.restart();
    }

    /// Returns the number of fields that were dropped because of
    /// [`MESSAGES_MAX_DEPTH`](crate::MESSAGES_MAX_DEPTH) or
    /// [`MESSAGE_MAX_BYTES`](crate::MESSAGE_MAX_BYTES) since this buffer was created.
    #[must_use]
    pub fn dropped_fields(&self) -> u64 {
        self.stream.dropped_fields()
    }
}

impl<M: Writer> Default for HeapBuffered<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Writer> fmt::Debug for HeapBuffered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapBuffered")
            .field("message", &M::NAME)
            .field("written_bytes", &self.stream.written_bytes())
            .finish()
    }
}
