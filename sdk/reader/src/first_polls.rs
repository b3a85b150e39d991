//! Finds the first poll of a future. A flow joins the polls of a future to the future's span. The
//! first poll may lack the flow, because it was not known yet that there would be more polls. A
//! first poll without the flow is recognized by its time: it begins exactly one nanosecond after
//! the span.

use std::collections::VecDeque;

/// The maximum number of spans that are remembered. If more spans begin at about the same time, the
/// oldest are dropped.
const FRESH_MAX: usize = 64;

/// The spans that began at the latest time or one nanosecond before, in the order of time.
#[derive(Debug)]
pub struct FreshSpans<T> {
    /// Begin times and spans; the newest is last.
    spans: VecDeque<(u64, T)>,
}

impl<T> Default for FreshSpans<T> {
    fn default() -> Self {
        Self {
            spans: VecDeque::new(),
        }
    }
}

impl<T: Copy> FreshSpans<T> {
    /// Adds a span that may have polls. Drops spans that are too old.
    pub fn add(&mut self, begin_ns: u64, span: T) {
        let is_over = |(begun_ns, _): &(u64, T)| begin_ns.saturating_sub(*begun_ns) > 1;
        while self.spans.len() == FRESH_MAX || self.spans.front().is_some_and(is_over) {
            self.spans.pop_front();
        }
        self.spans.push_back((begin_ns, span));
    }

    /// Returns the spans that began exactly one nanosecond before `begin_ns`: a slice that begins
    /// at `begin_ns` may be the first poll of any of them.
    pub fn right_before(&self, begin_ns: u64) -> impl Iterator<Item = T> {
        let spans = self.spans.iter();
        let right_before =
            spans.filter(move |(begun_ns, _)| begin_ns.checked_sub(*begun_ns) == Some(1));
        right_before.map(|(_, span)| *span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right_before(fresh: &FreshSpans<char>, begin_ns: u64) -> String {
        fresh.right_before(begin_ns).collect()
    }

    #[test]
    fn span_is_found_by_slice_one_nanosecond_later() {
        let mut fresh = FreshSpans::default();
        for (begin_ns, span) in [(7, 'a'), (8, 'b'), (8, 'c')] {
            fresh.add(begin_ns, span);
        }
        let found = [7, 8, 9, 10].map(|begin_ns| right_before(&fresh, begin_ns));
        assert_eq!(found, ["", "a", "bc", ""]);
        fresh.add(9, 'd');
        assert_eq!([8, 9].map(|it| right_before(&fresh, it)), ["", "bc"]);
        assert_eq!(right_before(&fresh, 0), "");
    }

    #[test]
    fn oldest_spans_are_dropped_beyond_the_limit() {
        let mut fresh = FreshSpans::default();
        (0..1000).for_each(|span| fresh.add(u64::MAX - 1, span));
        let found = Vec::from_iter(fresh.right_before(u64::MAX));
        assert_eq!(found, Vec::from_iter(1000 - FRESH_MAX..1000));
    }
}
