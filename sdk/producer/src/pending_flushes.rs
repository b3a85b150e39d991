//! Which instances have not finished which flushes.

use tracezero_core::ids::{FlushId, InstanceId};
use tracezero_core::small_map::SmallMap;

/// Flushes that are under way.
///
/// The service takes the answer to a flush for one to all before it, so a flush is over when those
/// before it are, too.
#[derive(Debug, Default)]
pub(super) struct PendingFlushes {
    /// The instances that each flush waits for, each once.
    waiting_for: SmallMap<FlushId, Vec<InstanceId>>,
}

impl PendingFlushes {
    pub(super) const fn new() -> Self {
        Self {
            waiting_for: SmallMap::new(),
        }
    }

    /// A flush begins, and waits for these.
    pub(super) fn begin(&mut self, flush: FlushId, instances: Vec<InstanceId>) {
        self.waiting_for.insert(flush, instances);
    }

    /// An instance has finished a flush.
    pub(super) fn finish(&mut self, flush: FlushId, instance: InstanceId) {
        if let Some(waiting_for) = self.waiting_for.get_mut(&flush) {
            waiting_for.retain(|other| *other != instance);
        }
    }

    /// An instance is gone.
    pub(super) fn forget(&mut self, instance: InstanceId) {
        for waiting_for in self.waiting_for.values_mut() {
            waiting_for.retain(|other| *other != instance);
        }
    }

    /// Takes out the flushes that are over; returns the last one.
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
    fn nobody_waits_for_an_instance_that_is_gone() {
        let mut pending = PendingFlushes::new();
        pending.begin(FlushId(1), Vec::from([A]));
        pending.begin(FlushId(2), Vec::from([A, B]));
        pending.forget(A);
        assert_eq!(pending.take_finished(), Some(FlushId(1)));
    }
}
