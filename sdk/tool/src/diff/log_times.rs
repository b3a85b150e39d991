//! Adds up times by their logarithms, in constant memory.

use super::statistics::Point;

/// The times of many calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LogTimes {
    pub(super) count: u64,
    pub(super) total_ns: u64,
    sum_of_logs: f64,
    sum_of_squared_logs: f64,
    /// In square nanoseconds.
    sum_of_squares: f64,
}

impl LogTimes {
    /// Adds a time and its [`log`].
    #[inline]
    pub(super) fn add_log(&mut self, time_ns: u64, log: f64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(time_ns);
        self.sum_of_logs += log;
        self.sum_of_squared_logs += log * log;
        self.sum_of_squares += (time_ns as f64).powi(2);
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.sum_of_logs += other.sum_of_logs;
        self.sum_of_squared_logs += other.sum_of_squared_logs;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// Returns the arithmetic mean, at least 1 ns.
    fn mean_ns(&self) -> f64 {
        (self.total_ns as f64 / self.count.max(1) as f64).max(1.0)
    }

    pub(super) fn mean_log(&self) -> f64 {
        self.sum_of_logs / self.count.max(1) as f64
    }

    /// Returns the sum of the squares of the distances from the mean logarithm.
    pub(super) fn squares_around_mean(&self) -> f64 {
        (self.sum_of_squared_logs - self.sum_of_logs * self.mean_log()).max(0.0)
    }
}

/// Returns the natural logarithm of a time. 0 ns counts as 1 ns: clocks are not more exact.
#[inline]
pub(super) fn log(time_ns: u64) -> f64 {
    (time_ns.max(1) as f64).ln()
}

/// Returns the mean logarithms of a row, by trace, for a comparison.
pub(super) fn points_of_times(row: &[(u32, LogTimes)]) -> Vec<Point> {
    let squares: f64 = row
        .iter()
        .map(|(_, times)| times.squares_around_mean())
        .sum();
    let free: u64 = row
        .iter()
        .map(|(_, times)| times.count.saturating_sub(1))
        .sum();
    // All traces together: a trace with one call tells nothing of how calls vary.
    let variance = squares / free.max(1) as f64;
    row.iter()
        .map(|(trace, times)| Point {
            trace: *trace,
            value: times.mean_log(),
            noise: variance / times.count.max(1) as f64,
        })
        .collect()
}

/// Returns the logarithms of the mean times of a row, by trace, for a comparison. A few very long calls
/// change them, but not the mean logarithms.
pub(super) fn points_of_means(row: &[(u32, LogTimes)]) -> Vec<Point> {
    let mut all = LogTimes::default();
    row.iter().for_each(|(_, times)| all.add_all(times));
    let mean_square = all.sum_of_squares / all.count.max(1) as f64;
    let spread = (mean_square / all.mean_ns().powi(2) - 1.0).max(0.0);
    row.iter()
        .map(|(trace, times)| Point {
            trace: *trace,
            value: times.mean_ns().ln(),
            noise: spread / times.count.max(1) as f64,
        })
        .collect()
}

/// Returns the logarithms of the numbers of calls of a row, by trace, for a comparison.
pub(super) fn points_of_counts(row: &[(u32, LogTimes)]) -> Vec<Point> {
    row.iter()
        .map(|(trace, times)| {
            let count = times.count.max(1) as f64;
            Point {
                trace: *trace,
                value: count.ln(),
                // As if calls came at random.
                noise: 1.0 / count,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(times_ns: &[u64]) -> LogTimes {
        let mut times = LogTimes::default();
        times_ns.iter().for_each(|ns| times.add_log(*ns, log(*ns)));
        times
    }

    #[test]
    fn logarithms_have_mean_and_variance() {
        let times = times(&[1_000, 10_000, 100_000]);
        assert!((times.mean_log() - 10_000_f64.ln()).abs() < 1e-12);
        let expected = 2.0 * 10_f64.ln().powi(2);
        assert!((times.squares_around_mean() - expected).abs() < 1e-9);
        assert_eq!((times.count, times.total_ns), (3, 111_000));
    }

    #[test]
    fn sums_add_up() {
        let mut sum = times(&[5, 7]);
        sum.add_all(&times(&[0, u64::MAX]));
        assert_eq!(sum, times(&[5, 7, 0, u64::MAX]));
        assert!(sum.mean_log().is_finite());
    }

    #[test]
    fn a_trace_with_one_call_is_as_noisy_as_one_call_of_others() {
        let row = [(0, times(&[1_000, 2_000])), (1, times(&[1_500]))];
        let points = points_of_times(&row);
        assert!(points[1].noise > 0.0);
        assert!((points[1].noise / points[0].noise - 2.0).abs() < 1e-9);
    }
}
