//! A range source with a single range, a slice of the caller.

use core::marker::PhantomData;

use super::StreamWriter;
use super::source::{Outgoing, RANGE_MAX_BYTES, Range, RangeSource, SlotTarget};

/// The source of a stream that writes to one slice of the caller. Bytes that do not fit are
/// discarded; [`FixedSource::overflowed`] then returns true.
///
/// ```
/// use protozero::FixedSource;
///
/// let mut memory = [0; 8];
/// let mut stream = FixedSource::stream(&mut memory);
/// stream.message().append_uint32::<1>(300);
/// assert!(!stream.source().overflowed());
/// assert_eq!(stream.used_bytes(), 3);
/// drop(stream);
/// assert_eq!(memory[..3], [0x08, 0xac, 0x02]);
/// ```
#[derive(Debug)]
pub struct FixedSource<'b> {
    overflowed: bool,
    slice: PhantomData<&'b mut [u8]>,
}

impl<'b> FixedSource<'b> {
    /// Creates a stream that writes to `slice`. The stream uses at most the first
    /// [`RANGE_MAX_BYTES`](crate::RANGE_MAX_BYTES) of the slice.
    #[inline]
    #[must_use]
    pub fn stream(slice: &'b mut [u8]) -> StreamWriter<Self> {
        let len = slice.len().min(RANGE_MAX_BYTES);
        let range = slice[..len].as_mut_ptr_range();
        let source = Self {
            overflowed: false,
            slice: PhantomData,
        };
        StreamWriter::starting_in(source, range.start, range.end)
    }

    /// Returns true if something did not fit into the slice.
    #[inline]
    #[must_use]
    pub const fn overflowed(&self) -> bool {
        self.overflowed
    }
}

// SAFETY: the slice is borrowed for as long as the source lives. Only `stream` hands it out,
// together with the source; `next_range` hands out no memory.
unsafe impl RangeSource for FixedSource<'_> {
    fn next_range(&mut self, mut outgoing: Outgoing<'_>) -> Range {
        self.overflowed = true;
        outgoing.redirect(|_| SlotTarget::Discard);
        Range::NOWHERE
    }
}
