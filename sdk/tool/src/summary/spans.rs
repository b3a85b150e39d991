//! Counts the durations of spans.

use super::histogram::Histogram;

/// The durations of spans.
#[derive(Clone, Debug, Default)]
pub(super) struct Durations {
    pub(super) count: u64,
    pub(super) total_ns: u64,
    /// The total self time: the time in the spans without the spans inside them.
    pub(super) self_ns: u64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
    pub(super) histogram: Histogram,
}

impl Durations {
    #[inline]
    pub(super) fn add(&mut self, duration_ns: u64, self_ns: u64) {
        self.min_ns = match self.count {
            0 => duration_ns,
            _ => self.min_ns.min(duration_ns),
        };
        self.max_ns = self.max_ns.max(duration_ns);
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(duration_ns);
        self.self_ns = self.self_ns.saturating_add(self_ns);
        self.histogram.add(duration_ns);
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ns = match self.count {
            0 => other.min_ns,
            _ => self.min_ns.min(other.min_ns),
        };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.self_ns = self.self_ns.saturating_add(other.self_ns);
        self.histogram.add_all(&other.histogram);
    }

    pub(super) fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }

    /// Returns the duration that the fraction `quantile` of all spans does not exceed. The result
    /// is exact if it is the smallest or the largest duration, and else within 1.6 %.
    pub(super) fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = (self.count as f64 * quantile).ceil() as u64;
        match rank {
            ..=1 => self.min_ns,
            rank if rank >= self.count => self.max_ns,
            rank => self
                .histogram
                .value_at(rank)
                .clamp(self.min_ns, self.max_ns),
        }
    }
}
