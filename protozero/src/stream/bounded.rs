//! A stack of fixed capacity, for builds without the feature `alloc`.

use core::ops::{Index, IndexMut};

/// A replacement for `Vec` with room for `N` items, and the methods that the slots need.
#[derive(Debug)]
pub(super) struct BoundedStack<T, const N: usize> {
    /// Items: the first `len` are `Some`.
    items: [Option<T>; N],
    /// The number of items; at most `N`.
    len: usize,
}

impl<T: Copy, const N: usize> BoundedStack<T, N> {
    pub(super) const fn new() -> Self {
        Self {
            items: [None; N],
            len: 0,
        }
    }

    /// Does nothing: the capacity is fixed.
    pub(super) const fn reserve(&mut self, additional: usize) {
        debug_assert!(self.len + additional <= N);
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.items.first()?.as_ref()
    }

    /// Pushes an item. There must be room for it, which `MESSAGES_MAX_DEPTH` guarantees.
    pub(super) fn push(&mut self, item: T) {
        debug_assert!(self.len < N);
        if let Some(free) = self.items.get_mut(self.len) {
            *free = Some(item);
            self.len += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let top = self.len.checked_sub(1)?;
        self.len = top;
        self.items[top].take()
    }
}

impl<T: Copy, const N: usize> Index<usize> for BoundedStack<T, N> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.items[index]
            .as_ref()
            .expect("an index below the length")
    }
}

impl<T: Copy, const N: usize> IndexMut<usize> for BoundedStack<T, N> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.items[index]
            .as_mut()
            .expect("an index below the length")
    }
}
