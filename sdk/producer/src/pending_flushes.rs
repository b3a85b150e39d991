//! The flushes that are under way, and the instances that have not finished them.

use tracezero_core::ids::{FlushId, InstanceId};
use tracezero_core::small_map::SmallMap;

/// The flushes that are under way.
///
/// An answer to a flush also answers all flushes before it. So a flush is over only when those
/// before it are over too.
#[derive(Debug, Default)]
pub(super) struct PendingFlushes {
    /// For each flush, the instances that have not finished it.
    waiting_for: SmallMap<FlushId, Vec<InstanceId>>,
}

impl PendingFlushes {
    pub(super) const fn new() -> Self {
        Self {
            waiting_for: SmallMap::new(),
        }
    }

    /// Begins a flush that waits for these instances.
    pub(super) fn begin(&mut self, flush: FlushId, instances: Vec<InstanceId>) {
        self.waiting_for.insert(flush, instances);
    }

    /// Notes that an instance has finished a flush.
    pub(super) fn finish(&mut self, flush: FlushId, instance: InstanceId) {
        if let Some(waiting_for) = self.waiting_for.get_mut(&flush) {
            waiting_for.retain(|other| *other != instance);
        }
    }

    /// Removes an instance that no longer exists from all flushes.
    pub(super) fn forget(&mut self, instance: InstanceId) {
        for waiting_for in self.waiting_for.values_mut() {
            waiting_for.retain(|other| *other != instance);
        }
    }

    /// Removes the flushes that are over, and returns the last of them.
    pub(super) fn take_finished(&mut self) -> Option<FlushId> {
        let mut last = None;
        while let Some((&flush, waiting_for)) = self.waiting_for.first()
            && waiting_for.is_empty()
        {
            last = Some(flush);
            self.waiting_for.pop_first();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InstanceId = InstanceId(1);
    const B: InstanceId = InstanceId(2);

    #[test]
    fn a_flush_is_over_when_all_its_instances_have_finished() {
        let mut pending = PendingFlushes::new();
        pending.begin(FlushId(1), Vec::from([A, B]));
        pending.finish(FlushId(1), A);
        assert_eq!(pending.take_finished(), None);
        pending.finish(FlushId(1), B);
        assert_eq!(pending.take_finished(), Some(FlushId(1)));
        assert_eq!(pending.take_finished(), None);
    }

    #[test]
    fn a_flush_without_instances_is_over_at_once() {
        let mut pending = PendingFlushes::new();
        pending.begin(FlushId(1), Vec::new());
        assert_eq!(pending.take_finished(), Some(FlushId(1)));
    }

    #[test]
    fn a_flush_waits_for_those_before_it() {
        let mut pending = PendingFlushes::new();
        pending.begin(FlushId(1), Vec::from([A]));
        pending.begin(FlushId(2), Vec::from([B]));
        pending.finish(FlushId(2), B);
        assert_eq!(pending.take_finished(), None);
        pending.finish(FlushId(1), A);
        assert_eq!(pending.take_finished(), Some(FlushId(2)));
    }

    #[test]
    fn no_flush_waits_for_a_removed_instance() {
        let mut pending = PendingFlushes::new();
        pending.begin(FlushId(1), Vec::from([A]));
        pending.begin(FlushId(2), Vec::from([A, B]));
        pending.forget(A);
        assert_eq!(pending.take_finished(), Some(FlushId(1)));
    }
}
