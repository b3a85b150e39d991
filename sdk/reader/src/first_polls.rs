//! The first polls of futures that nobody knew yet to be polled again: they lack the flow that joins the
//! other polls to the future's span. They are told by the time, since such a span begins a nanosecond
//! before its first poll.

use std::collections::VecDeque;

/// Spans that can begin at one time and be told from what else begins then.
const FRESH_MAX: usize = 64;

/// The spans that begin now or began right before, in the order of time.
#[derive(Debug)]
pub struct FreshSpans<T> {
    /// With their times; the newest.
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
    /// A span begins that other slices may be polls of.
    pub fn add(&mut self, begin_ns: u64, span: T) {
        let is_over = |(begun_ns, _): &(u64, T)| begin_ns.saturating_sub(*begun_ns) > 1;
        while self.spans.len() == FRESH_MAX || self.spans.front().is_some_and(is_over) {
            self.spans.pop_front();
        }
        self.spans.push_back((begin_ns, span));
    }

    /// Those of which a slice that begins then may be the first poll.
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
    fn a_span_is_fresh_for_what_begins_a_nanosecond_later() {
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
    fn of_more_than_can_be_told_apart_the_newest_stay() {
        let mut fresh = FreshSpans::default();
        (0..1000).for_each(|span| fresh.add(u64::MAX - 1, span));
        let found = Vec::from_iter(fresh.right_before(u64::MAX));
        assert_eq!(found, Vec::from_iter(1000 - FRESH_MAX..1000));
    }
}
