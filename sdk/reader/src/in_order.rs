//! Sorts values that come in nearly the order of their times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A window that sorts values by time. It holds back up to `held_back_max` values and releases the
/// earliest when it is full. Values of the same time stay in the order in which they came. A value
/// that comes after a later value has been released is out of order.
#[derive(Debug)]
pub(super) struct InOrder<V> {
    held_back: BinaryHeap<Held<V>>,
    held_back_max: usize,
    next_number: u64,
}

#[derive(Debug)]
struct Held<V> {
    time_ns: u64,
    number: u64,
    value: V,
}

impl<V> InOrder<V> {
    pub(super) const fn new(held_back_max: usize) -> Self {
        Self {
            held_back: BinaryHeap::new(),
            held_back_max,
            next_number: 0,
        }
    }

    /// Adds a value. If the window is full, returns the earliest value.
    pub(super) fn push(&mut self, time_ns: u64, value: V) -> Option<V> {
        let number = self.next_number;
        self.next_number += 1;
        self.held_back.push(Held {
            time_ns,
            number,
            value,
        });
        if self.held_back.len() > self.held_back_max {
            self.pop()
        } else {
            None
        }
    }

    /// Removes and returns the earliest value.
    pub(super) fn pop(&mut self) -> Option<V> {
        Some(self.held_back.pop()?.value)
    }
}

impl<V> Ord for Held<V> {
    /// Orders earlier values as greater, because `BinaryHeap` pops the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time_ns, other.number).cmp(&(self.time_ns, self.number))
    }
}

impl<V> PartialOrd for Held<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<V> PartialEq for Held<V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<V> Eq for Held<V> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_by_time_and_ties_keep_their_order() {
        let mut in_order = InOrder::new(3);
        let mut out = Vec::new();
        for (time_ns, value) in [(5, 'a'), (3, 'b'), (5, 'c'), (4, 'd'), (1, 'e')] {
            out.extend(in_order.push(time_ns, value));
        }
        out.extend(std::iter::from_fn(|| in_order.pop()));
        // 'e' came after 'b' was released.
        assert_eq!(out, ['b', 'e', 'd', 'a', 'c']);
    }
}
