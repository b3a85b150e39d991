//! A source that hands out one slice, once.

use core::marker::PhantomData;

use super::StreamWriter;
use super::source::{MAX_RANGE_BYTES, Outgoing, Range, RangeSource, SlotTarget};

/// The source behind a stream that starts in a slice of the caller's. What does not fit there goes
/// nowhere, and that is remembered.
#[derive(Debug)]
pub struct FixedSource<'b> {
    overflowed: bool,
    slice: PhantomData<&'b mut [u8]>,
}

impl<'b> FixedSource<'b> {
    /// A stream that writes to `slice`. Of one that is longer than
    /// [`MAX_RANGE_BYTES`](crate::MAX_RANGE_BYTES), only that many bytes are used.
    #[inline]
    #[must_use]
    pub fn stream(slice: &'b mut [u8]) -> StreamWriter<Self> {
        let len = slice.len().min(MAX_RANGE_BYTES);
        let range = slice[..len].as_mut_ptr_range();
        let source = Self {
            overflowed: false,
            slice: PhantomData,
        };
        StreamWriter::starting_in(source, range.start, range.end)
    }

    /// Whether something did not fit into the slice.
    #[inline]
    #[must_use]
    pub const fn overflowed(&self) -> bool {
        self.overflowed
    }
}

// SAFETY: the slice is borrowed for as long as the source lives, and is handed out only by
// `stream`, together with the source; afterwards there is no memory.
unsafe impl RangeSource for FixedSource<'_> {
    fn next_range(&mut self, mut outgoing: Outgoing<'_>) -> Range {
        self.overflowed = true;
        outgoing.redirect(|_| SlotTarget::Discard);
        Range::NOWHERE
    }
}
