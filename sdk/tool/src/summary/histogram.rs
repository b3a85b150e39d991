//! Counts durations by length, in bounded memory.

/// The number of equal buckets per power of two. A quantile is off by at most half a bucket: 1/64,
/// or 1.6 %.
const PARTS: u64 = 32;
const PARTS_BITS: u32 = PARTS.trailing_zeros();

/// Counts values by their size. Takes at most 15 KiB, for any number of values.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    /// The count of each [`bucket`]. The first count is that of bucket `start`.
    counts: Vec<u64>,
    start: usize,
}

impl Histogram {
    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        let index = bucket(value).wrapping_sub(self.start);
        match self.counts.get_mut(index) {
            Some(count) => *count += 1,
            None => self.widen(value),
        }
    }

    /// Adds the counts of another histogram.
    pub(super) fn add_all(&mut self, other: &Self) {
        for (index, count) in other.counts.iter().enumerate().filter(|(_, it)| **it > 0) {
            self.make_room(other.start + index);
            self.counts[other.start + index - self.start] += count;
        }
    }

    /// Makes room for a value outside the range so far, and counts it.
    #[cold]
    fn widen(&mut self, value: u64) {
        let bucket = bucket(value);
        self.make_room(bucket);
        self.counts[bucket - self.start] += 1;
    }

    fn make_room(&mut self, bucket: usize) {
        if self.counts.is_empty() {
            self.start = bucket;
        }
        if bucket < self.start {
            let missing = self.start - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.start = bucket;
        }
        let index = bucket - self.start;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
    }

    /// Returns the value of this rank, counted from 1 for the smallest, within 1.6 %. Returns 0 if
    /// there are no values.
    pub(super) fn value_at(&self, rank: u64) -> u64 {
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(self.start + index);
            }
        }
        0
    }
}

/// Returns the bucket of a value. Small values have a bucket each. Larger values share a bucket
/// with all values that have the same leading bits.
#[inline]
fn bucket(value: u64) -> usize {
    let exponent = (value | PARTS).ilog2() - PARTS_BITS;
    (u64::from(exponent) * PARTS + (value >> exponent)) as usize
}

/// Returns the value in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let exponent = bucket / PARTS - 1;
    let low = (bucket - exponent * PARTS) << exponent;
    low + (1 << exponent >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_again_within_one_in_sixty_four() {
        let mut value = 1_u64;
        while value < u64::MAX / 3 {
            for value in [value - 1, value, value + value / 3] {
                let found = middle(bucket(value));
                assert!(found.abs_diff(value) <= value / 64, "{value}: {found}");
            }
            value *= 2;
        }
        assert!(bucket(u64::MAX) < 64 * PARTS as usize);
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let mut last = 0;
        for value in 0..100_000 {
            let bucket = bucket(value);
            assert!(bucket == last || bucket == last + 1, "{value}");
            last = bucket;
        }
    }

    #[test]
    fn a_sum_counts_as_both_parts() {
        let mut all = Histogram::default();
        let mut parts = [Histogram::default(), Histogram::default()];
        for value in [7, 5_000, 12, 1_000_000, 3, 5_000] {
            all.add(value);
            parts[value as usize % 2].add(value);
        }
        let [mut sum, odd] = parts;
        sum.add_all(&odd);
        sum.add_all(&Histogram::default());
        for rank in 1..=6 {
            assert_eq!(sum.value_at(rank), all.value_at(rank));
        }
    }

    #[test]
    fn values_are_found_by_their_rank() {
        let mut histogram = Histogram::default();
        // Add the values downwards, so that the histogram grows at its front too.
        for value in (1..=10_000).rev() {
            histogram.add(value);
        }
        for exact in [1, 5000, 9900, 10_000] {
            let found = histogram.value_at(exact);
            assert!(found.abs_diff(exact) <= exact / 64, "{exact}: {found}");
        }
        assert_eq!(Histogram::default().value_at(1), 0);
    }
}
