//! A source that hands out one slice, once.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ptr;

use super::StreamWriter;
use super::source::{MAX_RANGE_BYTES, Outgoing, Range, RangeSource};

/// Memory for what does not fit.
const SCRATCH_BYTES: usize = 64;

/// Hands out nothing but scratch memory: the caller's slice is the range that its stream starts
/// in. What does not fit goes nowhere, and is remembered.
#[derive(Debug)]
pub struct FixedSource<'b> {
    scratch: Scratch,
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
            scratch: Scratch(ptr::null_mut()),
            slice: PhantomData,
        };
        StreamWriter::starting_in(source, range.start, range.end)
    }

    /// Whether something did not fit into the slice.
    #[inline]
    #[must_use]
    pub const fn overflowed(&self) -> bool {
        !self.scratch.0.is_null()
    }
}

// SAFETY: the slice is borrowed for as long as the source lives, and is handed out only by
// `stream`, together with the source; the scratch memory is there until the source is dropped.
unsafe impl RangeSource for FixedSource<'_> {
    fn next_range(&mut self, _: Outgoing<'_>) -> Range {
        let Scratch(scratch) = &mut self.scratch;
        if scratch.is_null() {
            *scratch = Box::into_raw(Box::new([0; SCRATCH_BYTES]));
        }
        Range::new(scratch.cast(), SCRATCH_BYTES)
    }
}

/// A leaked box, there as soon as something did not fit.
///
/// A type of its own, because a `Drop` of the source would extend the borrow of its slice.
#[derive(Debug)]
struct Scratch(*mut [u8; SCRATCH_BYTES]);

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: a scratch pointer that is not null came from a box.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

// SAFETY: the source stands for an exclusive borrow of the slice and owns its scratch memory.
unsafe impl Send for FixedSource<'_> {}
