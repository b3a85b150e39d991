//! Times in which the kernel, or the trace, lost events of a core.

use std::collections::BTreeMap;

/// A time in which events of a core are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The core.
    pub cpu: u32,
    /// The time of the last event before the gap; 0 if there is none.
    pub begin_ns: u64,
    /// The time from which on there are events again.
    pub end_ns: u64,
}

/// The number of events that a core's buffer in the kernel lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuLoss {
    /// The core.
    pub cpu: u32,
    /// The number of events that were lost while the trace was recorded, as the kernel counts them.
    pub events: u64,
}

/// The gaps of all cores.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    /// By begin.
    gaps: Vec<Gap>,
    outages: Vec<Outage>,
}

/// A time in which events of any core are missing: the union of gaps that overlap. Outages are in
/// order and do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outage {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// The index of its first gap.
    pub(super) first: u32,
    /// The index after that of its last gap.
    end: u32,
}

/// The counts that the kernel keeps of each core's buffer, by core: the first and the last that the
/// trace has.
#[derive(Clone, Debug, Default)]
pub(super) struct LossCounts {
    counts: BTreeMap<u32, (u64, u64)>,
}

impl Gaps {
    pub(super) fn new(mut gaps: Vec<Gap>) -> Self {
        gaps.sort_by_key(|gap| gap.begin_ns);
        let mut outages: Vec<Outage> = Vec::new();
        for (index, gap) in (0..).zip(&gaps) {
            match outages.last_mut() {
                Some(last) if gap.begin_ns < last.end_ns => {
                    last.end_ns = gap.end_ns.max(last.end_ns);
                    last.end = index + 1;
                }
                _ => outages.push(Outage {
                    begin_ns: gap.begin_ns,
                    end_ns: gap.end_ns,
                    first: index,
                    end: index + 1,
                }),
            }
        }
        Self { gaps, outages }
    }

    pub(super) fn all(&self) -> &[Gap] {
        &self.gaps
    }

    /// Returns the outages that overlap with a time.
    pub(super) fn outages(&self, begin_ns: u64, end_ns: u64) -> &[Outage] {
        let start = self.outages.partition_point(|it| it.end_ns <= begin_ns);
        let end = self.outages.partition_point(|it| it.begin_ns < end_ns);
        self.outages.get(start..end).unwrap_or_default()
    }

    /// Returns the outage that a gap is part of.
    pub(super) fn outage_of(&self, gap: u32) -> Option<&Outage> {
        let after = self.outages.partition_point(|outage| outage.first <= gap);
        self.outages.get(after.checked_sub(1)?)
    }

    /// Returns the gaps of the outage that a gap is part of.
    pub(super) fn with_overlapping(&self, gap: u32) -> &[Gap] {
        let outage = self.outage_of(gap);
        let range = outage.map(|outage| outage.first as usize..outage.end as usize);
        range
            .and_then(|range| self.gaps.get(range))
            .unwrap_or_default()
    }
}

impl LossCounts {
    /// Takes the count of a core's lost events since the kernel started to count.
    pub(super) fn set(&mut self, cpu: u32, lost: u64) {
        let (first, last) = self.counts.entry(cpu).or_insert((lost, lost));
        *first = lost.min(*first);
        *last = lost.max(*last);
    }

    /// Returns the cores that lost events.
    pub(super) fn losses(&self) -> Vec<CpuLoss> {
        let grown = self.counts.iter().filter(|(_, (first, last))| last > first);
        grown
            .map(|(cpu, (first, last))| CpuLoss {
                cpu: *cpu,
                events: last - first,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_overlap_are_one_outage() {
        let gap = |cpu, begin_ns, end_ns| Gap {
            cpu,
            begin_ns,
            end_ns,
        };
        let gaps = [
            gap(1, 120, 130),
            gap(0, 10, 100),
            gap(1, 20, 30),
            gap(1, 90, 110),
        ];
        let gaps = Gaps::new(gaps.to_vec());
        let outages = |begin_ns, end_ns| {
            let outages = gaps.outages(begin_ns, end_ns).iter();
            Vec::from_iter(outages.map(|it| (it.begin_ns, it.end_ns, it.first)))
        };
        let (first, second) = ((10, 110, 0), (120, 130, 3));
        assert_eq!(outages(0, 10), []);
        assert_eq!(outages(0, 11), [first]);
        assert_eq!(outages(105, 121), [first, second]);
        assert_eq!(outages(110, 120), []);
        assert_eq!(outages(130, 900), []);
        let cpus = |gap| Vec::from_iter(gaps.with_overlapping(gap).iter().map(|gap| gap.cpu));
        assert_eq!(
            [0, 1, 2, 3].map(cpus),
            [vec![0, 1, 1], vec![0, 1, 1], vec![0, 1, 1], vec![1]]
        );
        assert!(Gaps::default().with_overlapping(0).is_empty());
    }

    #[test]
    fn losses_are_what_counts_have_grown_by() {
        let mut counts = LossCounts::default();
        for (cpu, lost) in [(1, 5), (0, 7), (1, 5), (0, 10)] {
            counts.set(cpu, lost);
        }
        let expected = [CpuLoss { cpu: 0, events: 3 }];
        assert_eq!(counts.losses(), expected);
    }
}
