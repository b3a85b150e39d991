//! A stack with a fixed capacity, for builds without a heap.

use core::ops::{Index, IndexMut};

/// As much of `Vec` as the slots need, with room for `N` items.
#[derive(Debug)]
pub(super) struct Bounded<T, const N: usize> {
    /// The first `len` are there.
    items: [Option<T>; N],
    /// At most `N`.
    len: usize,
}

impl<T: Copy, const N: usize> Bounded<T, N> {
    pub(super) const fn new() -> Self {
        Self {
            items: [None; N],
            len: 0,
        }
    }

    /// Nothing to do: the room is there.
    pub(super) const fn reserve(&mut self, additional: usize) {
        debug_assert!(self.len + additional <= N);
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.items.first()?.as_ref()
    }

    /// Pushes an item. There must be room for it: `MAX_DEPTH` sees to that.
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

impl<T: Copy, const N: usize> Index<usize> for Bounded<T, N> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.items[index]
            .as_ref()
            .expect("an index below the length")
    }
}

impl<T: Copy, const N: usize> IndexMut<usize> for Bounded<T, N> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.items[index]
            .as_mut()
            .expect("an index below the length")
    }
}
