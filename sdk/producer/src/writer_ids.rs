//! Allocates writer ids.

use tracezero_core::ids::WriterId;

/// Allocates writer ids from 1 to a maximum, next-fit: a released id is used again as late as
/// possible. The service may still have data of the last owner of an id, and could mistake the data
/// for the next owner's. Late reuse makes this mistake rare.
#[derive(Debug)]
pub(super) struct WriterIds {
    /// True if id `index + 1` is in use. Grows with the largest id that was allocated.
    used: Vec<bool>,
    /// The id that was allocated last; 0 before the first.
    last: u16,
    /// The largest id.
    max: WriterId,
    in_use: u16,
}

impl WriterIds {
    pub(super) const fn new(max: WriterId) -> Self {
        Self {
            used: Vec::new(),
            last: 0,
            max,
            in_use: 0,
        }
    }

    /// Returns the next id that is not in use; `None` if all are.
    pub(super) fn allocate(&mut self) -> Option<WriterId> {
        if self.in_use == self.max.0 {
            return None;
        }
        loop {
            self.last = if self.last == self.max.0 {
                1
            } else {
                self.last + 1
            };
            let index = usize::from(self.last - 1);
            if index == self.used.len() {
                self.used.push(false);
            }
            if !std::mem::replace(&mut self.used[index], true) {
                self.in_use += 1;
                return Some(WriterId(self.last));
            }
        }
    }

    /// Releases an id. Ignores an id that is not in use.
    pub(super) fn release(&mut self, id: WriterId) {
        let is_used = usize::from(id.0)
            .checked_sub(1)
            .and_then(|index| self.used.get_mut(index));
        if is_used.is_some_and(std::mem::take) {
            self.in_use -= 1;
        }
    }

    /// Returns true if no id is in use.
    pub(super) fn is_empty(&self) -> bool {
        self.in_use == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(ids: &mut WriterIds) -> Option<u16> {
        ids.allocate().map(|id| id.0)
    }

    fn allocate_all(ids: &mut WriterIds) -> Vec<u16> {
        std::iter::from_fn(|| allocate(ids)).collect()
    }

    fn release(ids: &mut WriterIds, id: u16) {
        ids.release(WriterId(id));
    }

    #[test]
    fn ids_come_in_order_until_all_are_in_use() {
        let mut ids = WriterIds::new(WriterId(255));
        assert_eq!(allocate_all(&mut ids), (1..=255).collect::<Vec<_>>());
        assert_eq!(ids.allocate(), None);
        release(&mut ids, 255);
        assert_eq!(allocate(&mut ids), Some(255));
        assert_eq!(ids.allocate(), None);
    }

    #[test]
    fn released_id_is_used_again_as_late_as_possible() {
        let mut ids = WriterIds::new(WriterId(1023));
        for _ in 0..3 {
            let mut all = allocate_all(&mut ids);
            all.sort_unstable();
            assert_eq!(all, (1..=1023).collect::<Vec<_>>());

            for _ in 0..3 {
                release(&mut ids, 42);
                assert_eq!(allocate(&mut ids), Some(42));
            }
            release(&mut ids, 1);
            release(&mut ids, 1023);
            // The search continues after 42.
            assert_eq!(allocate(&mut ids), Some(1023));
            assert_eq!(allocate(&mut ids), Some(1));
            assert_eq!(ids.allocate(), None);

            for id in (1..=1023).rev() {
                assert!(!ids.is_empty());
                release(&mut ids, id);
            }
            assert!(ids.is_empty());
        }
    }

    #[test]
    fn the_largest_id_of_the_abi_is_reached() {
        let mut ids = WriterIds::new(WriterId::MAX);
        assert_eq!(allocate_all(&mut ids).last(), Some(&0x7fff));
    }

    #[test]
    fn releasing_an_id_that_is_not_in_use_changes_nothing() {
        let mut ids = WriterIds::new(WriterId(3));
        let first = allocate(&mut ids).unwrap();
        for id in [0, 2, 3, 4, u16::MAX] {
            release(&mut ids, id);
        }
        assert!(!ids.is_empty());
        release(&mut ids, first);
        release(&mut ids, first);
        assert!(ids.is_empty());
        assert_eq!(allocate(&mut ids), Some(2));
    }
}
