//! A source that hands out one slice, once.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ptr;

use super::source::{MAX_RANGE_BYTES, MIN_RANGE_BYTES, Outgoing, Range, RangeSource};

/// Memory for what does not fit.
const SCRATCH_BYTES: usize = 64;

/// Hands out the caller's slice; what does not fit goes nowhere, and is remembered.
///
/// Of a slice longer than [`MAX_RANGE_BYTES`], only that many bytes are used.
#[derive(Debug)]
pub struct FixedSource<'b> {
    /// Taken when it is handed out.
    slice: Option<Range>,
    /// A leaked box, there as soon as something did not fit.
    scratch: *mut [u8; SCRATCH_BYTES],
    borrow: PhantomData<&'b mut [u8]>,
}

impl<'b> FixedSource<'b> {
    /// A source for `slice`. One of fewer than [`MIN_RANGE_BYTES`] bytes is of no use: everything
    /// overflows.
    #[must_use]
    pub fn new(slice: &'b mut [u8]) -> Self {
        let len = slice.len().min(MAX_RANGE_BYTES);
        let usable = len >= MIN_RANGE_BYTES;
        Self {
            slice: usable.then(|| Range::new(slice.as_mut_ptr(), len)),
            scratch: ptr::null_mut(),
            borrow: PhantomData,
        }
    }

    /// Whether something did not fit into the slice.
    #[must_use]
    pub const fn overflowed(&self) -> bool {
        !self.scratch.is_null()
    }
}

// SAFETY: the slice is borrowed for as long as the source lives, and handed out only once; the
// scratch memory is freed by the source's drop.
unsafe impl RangeSource for FixedSource<'_> {
    fn next_range(&mut self, _: Outgoing<'_>) -> Range {
        self.slice.take().unwrap_or_else(|| {
            if self.scratch.is_null() {
                self.scratch = Box::into_raw(Box::new([0; SCRATCH_BYTES]));
            }
            Range::new(self.scratch.cast(), SCRATCH_BYTES)
        })
    }
}

impl Drop for FixedSource<'_> {
    fn drop(&mut self) {
        if !self.scratch.is_null() {
            // SAFETY: a scratch pointer that is not null came from a box.
            drop(unsafe { Box::from_raw(self.scratch) });
        }
    }
}

// SAFETY: the source stands for an exclusive borrow of the slice and owns its scratch memory.
unsafe impl Send for FixedSource<'_> {}
