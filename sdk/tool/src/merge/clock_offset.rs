//! Finds by how much the clock of another machine must be moved.
//!
//! The time of day is about the same on all machines whose clocks are set over the network. It gives
//! an estimate. Flows between the machines give bounds, because a message cannot arrive before it was
//! sent. The estimate is used if no flow contradicts it.

use std::fmt;

use crate::units::{duration, plural, seconds};

/// The least change of the time of day during a recording that is reported.
const SET_BY_MIN_NS: i128 = 1_000_000;
/// The least number of flows at the begin and at the end that tell how the clocks drift.
const DRIFT_FLOWS_MIN: usize = 8;

/// What is added to the times of a machine, and where that comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClockOffset {
    pub(super) ns: i64,
    basis: Basis,
    contradiction: Option<Contradiction>,
}

/// A bound of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) is_lower: bool,
    pub(super) offset_ns: i128,
    /// The time of the flow on the first machine.
    pub(super) time_ns: i64,
}

/// What tells the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The user.
    Given,
    /// The machines have the same boot time.
    SameBoot,
    TimeOfDay,
    /// Flows in both directions. `moved_ns` is the distance from the estimate, if there is one.
    Flows {
        flows: u64,
        within_ns: u64,
        moved_ns: Option<i64>,
    },
    /// Flows in one direction, which allow the estimate or the offset that is nearest to it.
    FlowsOneWay {
        flows: u64,
        moved_ns: i64,
    },
    /// Flows in one direction, without an estimate: the fastest takes no time.
    FastestFlow {
        flows: u64,
    },
}

/// Flows that go back in time with the best offset.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Contradiction {
    flows: u64,
    of: u64,
    by_ns: u64,
    /// By how much the clock of the machine is slower, in parts per million, if that is the reason.
    drift_ppm: Option<f64>,
}

/// The offsets that the fewest bounds contradict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    lowest_ns: Option<i128>,
    highest_ns: Option<i128>,
    contradicting: u64,
}

impl ClockOffset {
    pub(super) const fn given(ns: i64) -> Self {
        Self::new(ns, Basis::Given)
    }

    pub(super) const fn of_same_boot() -> Self {
        Self::new(0, Basis::SameBoot)
    }

    /// Finds the offset by an estimate, which comes from the times of day, and by bounds. Returns
    /// `None` if nothing tells it.
    pub(super) fn find(estimate_ns: Option<i64>, bounds: &[Bound]) -> Option<Self> {
        if bounds.is_empty() {
            return estimate_ns.map(|ns| Self::new(ns, Basis::TimeOfDay));
        }
        let flows = bounds.len() as u64;
        let estimate = estimate_ns.map(i128::from);
        let range = Range::of(bounds, estimate);
        let ns = i64::try_from(range.best_ns(estimate)).ok()?;
        let moved_ns = estimate_ns.map(|estimate_ns| ns.saturating_sub(estimate_ns));
        let basis = match (range.lowest_ns, range.highest_ns, moved_ns) {
            (Some(lowest_ns), Some(highest_ns), _) => {
                let ns = i128::from(ns);
                Basis::Flows {
                    flows,
                    within_ns: saturating_u64((ns - lowest_ns).max(highest_ns - ns)),
                    moved_ns,
                }
            }
            (_, _, Some(moved_ns)) => Basis::FlowsOneWay { flows, moved_ns },
            (_, _, None) => Basis::FastestFlow { flows },
        };
        Some(Self {
            contradiction: Contradiction::of(ns, bounds, estimate),
            ..Self::new(ns, basis)
        })
    }

    const fn new(ns: i64, basis: Basis) -> Self {
        Self {
            ns,
            basis,
            contradiction: None,
        }
    }

    /// Returns what the user should know of the offset, one note a line. `set_by_ns` tells by how
    /// much the time of day was set during the recordings.
    pub(super) fn notes(&self, machine: &str, set_by_ns: i128) -> Vec<String> {
        let mut notes = vec![format!("{machine}: {self}")];
        if let Some(contradiction) = &self.contradiction {
            notes.push(format!("{machine}: {contradiction}"));
        }
        let uses_time_of_day = match self.basis {
            Basis::TimeOfDay | Basis::FlowsOneWay { .. } => true,
            Basis::Given | Basis::SameBoot | Basis::Flows { .. } | Basis::FastestFlow { .. } => {
                false
            }
        };
        if uses_time_of_day && set_by_ns >= SET_BY_MIN_NS {
            let by = duration(saturating_u64(set_by_ns));
            notes.push(format!(
                "{machine}: the time of day was set by {by} during the recordings; its last value is used"
            ));
        }
        notes
    }
}

impl Range {
    /// Finds the offsets that the fewest bounds contradict: all of them lie between the same
    /// bounds. If there are several such ranges, returns the one that is nearest to the estimate.
    fn of(bounds: &[Bound], estimate_ns: Option<i128>) -> Self {
        let mut sorted: Vec<(i128, bool)> = bounds
            .iter()
            // At the same offset, lower bounds come first: an offset may equal both.
            .map(|bound| (bound.offset_ns, !bound.is_lower))
            .collect();
        sorted.sort_unstable();
        let lower = sorted.iter().filter(|(_, is_upper)| !is_upper).count();
        let mut range = Self {
            lowest_ns: None,
            highest_ns: sorted.first().map(|(offset_ns, _)| *offset_ns),
            contradicting: lower as u64,
        };
        let mut best = range;
        for (index, (offset_ns, is_upper)) in sorted.iter().enumerate() {
            range.lowest_ns = Some(*offset_ns);
            range.highest_ns = sorted.get(index + 1).map(|(offset_ns, _)| *offset_ns);
            match is_upper {
                true => range.contradicting += 1,
                false => range.contradicting -= 1,
            }
            let rank = |range: &Self| (range.contradicting, range.distance_ns(estimate_ns));
            if rank(&range) < rank(&best) {
                best = range;
            }
        }
        best
    }

    /// Returns the offset in the range that is nearest to the estimate; without an estimate, the
    /// middle. A range with both ends that lacks the estimate also gives its middle: the estimate is
    /// wrong then, and its distance tells nothing.
    fn best_ns(&self, estimate_ns: Option<i128>) -> i128 {
        match (self.lowest_ns, self.highest_ns) {
            (Some(lowest_ns), Some(highest_ns)) => estimate_ns
                .filter(|estimate_ns| (lowest_ns..=highest_ns).contains(estimate_ns))
                .unwrap_or(lowest_ns + (highest_ns - lowest_ns) / 2),
            (Some(lowest_ns), None) => {
                estimate_ns.map_or(lowest_ns, |estimate_ns| estimate_ns.max(lowest_ns))
            }
            (None, Some(highest_ns)) => {
                estimate_ns.map_or(highest_ns, |estimate_ns| estimate_ns.min(highest_ns))
            }
            (None, None) => estimate_ns.unwrap_or_default(),
        }
    }

    fn distance_ns(&self, estimate_ns: Option<i128>) -> i128 {
        let Some(estimate_ns) = estimate_ns else {
            return 0;
        };
        let below = self
            .lowest_ns
            .map_or(0, |lowest_ns| lowest_ns - estimate_ns);
        let above = self
            .highest_ns
            .map_or(0, |highest_ns| estimate_ns - highest_ns);
        below.max(above).max(0)
    }
}

impl Contradiction {
    fn of(ns: i64, bounds: &[Bound], estimate_ns: Option<i128>) -> Option<Self> {
        let ns = i128::from(ns);
        let by_ns = bounds.iter().map(|bound| match bound.is_lower {
            true => bound.offset_ns - ns,
            false => ns - bound.offset_ns,
        });
        let by_ns: Vec<i128> = by_ns.filter(|by_ns| *by_ns > 0).collect();
        let most_ns = saturating_u64(*by_ns.iter().max()?);
        Some(Self {
            flows: by_ns.len() as u64,
            of: bounds.len() as u64,
            by_ns: most_ns,
            drift_ppm: drift_ppm(bounds, estimate_ns, most_ns),
        })
    }
}

/// Returns by how much the clock of a machine is slower than that of the first, if that explains that
/// flows go back in time by up to `by_ns`. Compares the first with the last flows: so many of them
/// that those of each end do not contradict each other.
fn drift_ppm(bounds: &[Bound], estimate_ns: Option<i128>, by_ns: u64) -> Option<f64> {
    let offset_of = |bounds: &[Bound]| {
        let range = Range::of(bounds, estimate_ns);
        let (lowest_ns, highest_ns) = range.lowest_ns.zip(range.highest_ns)?;
        let time_ns = bounds.get(bounds.len() / 2)?.time_ns;
        let middle_ns = lowest_ns + (highest_ns - lowest_ns) / 2;
        (range.contradicting == 0).then_some((middle_ns, time_ns))
    };
    let counts = (1..).map(|halvings| bounds.len() >> halvings);
    let mut counts = counts.take_while(|count| *count >= DRIFT_FLOWS_MIN);
    let (early, late) = counts.find_map(|count| {
        let (early, late) = (&bounds[..count], &bounds[bounds.len() - count..]);
        offset_of(early).zip(offset_of(late))
    })?;
    let passed_ns = late.1.checked_sub(early.1).filter(|passed| *passed > 0)?;
    let drifted_ns = late.0 - early.0;
    let explains = drifted_ns.unsigned_abs() >= u128::from(by_ns) / 2;
    explains.then(|| drifted_ns as f64 / passed_ns as f64 * 1e6)
}

fn saturating_u64(ns: i128) -> u64 {
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

/// Formats an offset exactly, with its sign, as `--clock-offset` takes it.
pub(super) fn signed(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    format!("{sign}{} s", seconds(ns.unsigned_abs()))
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.basis {
            Basis::SameBoot => {
                return f.write_str("clock not moved: the boot id says that it is the same clock");
            }
            Basis::Given if self.ns == 0 => {
                return f.write_str("clock not moved, as --clock-offset says");
            }
            _ => write!(f, "clock moved by {}, ", signed(self.ns))?,
        }
        match self.basis {
            Basis::Given => f.write_str("as --clock-offset says"),
            Basis::SameBoot => Ok(()),
            Basis::TimeOfDay => f.write_str(
                "by the times of day, and as exact as these are; no flow joins the machines",
            ),
            Basis::Flows {
                flows,
                within_ns,
                moved_ns,
            } => {
                let flows = plural(flows, "flow");
                let within = duration(within_ns);
                match moved_ns {
                    Some(0) => write!(
                        f,
                        "by the times of day, which {flows} confirm within {within}"
                    ),
                    Some(moved_ns) => write!(
                        f,
                        "by {flows}, within {within}; the times of day are off by {}",
                        duration(moved_ns.unsigned_abs())
                    ),
                    None => write!(f, "by {flows}, within {within}"),
                }
            }
            Basis::FlowsOneWay { flows, moved_ns } => {
                let flows = plural(flows, "flow");
                match moved_ns {
                    0 => write!(
                        f,
                        "by the times of day, and as exact as these are; {flows} allow it"
                    ),
                    _ => write!(
                        f,
                        "by the times of day, changed by {} so that {flows} do not go back in time; no \
                         flow in the other direction says how exact it is",
                        duration(moved_ns.unsigned_abs())
                    ),
                }
            }
            Basis::FastestFlow { flows } => write!(
                f,
                "so that the fastest of {} takes no time; nothing says how exact it is",
                plural(flows, "flow")
            ),
        }
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} go back in time by up to {}",
            self.flows,
            plural(self.of, "flow"),
            duration(self.by_ns)
        )?;
        match self.drift_ppm {
            Some(drift_ppm) => write!(f, ": the clocks drift apart by {drift_ppm:.1} ppm"),
            None => f.write_str(": the flows contradict each other"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(is_lower: bool, offset_ns: i128, time_ns: i64) -> Bound {
        Bound {
            is_lower,
            offset_ns,
            time_ns,
        }
    }

    fn text(estimate_ns: Option<i64>, bounds: &[Bound]) -> String {
        let offset = ClockOffset::find(estimate_ns, bounds).expect("an offset");
        offset.notes("b", 0).join("\n")
    }

    #[test]
    fn estimate_between_the_bounds_is_used() {
        let bounds = [bound(true, 900, 0), bound(false, 1_200, 1)];
        assert_eq!(
            text(Some(1_050), &bounds),
            "b: clock moved by +0.00000105 s, by the times of day, which 2 flows confirm within 150 ns"
        );
    }

    #[test]
    fn middle_of_the_bounds_is_used_if_they_exclude_the_estimate() {
        let bounds = [
            bound(true, 900, 0),
            bound(true, 700, 0),
            bound(false, 1_200, 1),
            bound(false, 1_100, 1),
        ];
        assert_eq!(
            text(Some(5_000_000), &bounds),
            "b: clock moved by +0.000001 s, by 4 flows, within 100 ns; the times of day are off by 5.00 ms"
        );
        assert_eq!(
            text(None, &bounds),
            "b: clock moved by +0.000001 s, by 4 flows, within 100 ns"
        );
    }

    #[test]
    fn one_way_flows_change_the_estimate_as_little_as_possible() {
        let offset = |estimate_ns, is_lower| {
            let bounds = [bound(is_lower, 50, 0), bound(is_lower, 70, 0)];
            ClockOffset::find(estimate_ns, &bounds).map(|offset| offset.ns)
        };
        assert_eq!(offset(Some(10), true), Some(70));
        assert_eq!(offset(Some(80), true), Some(80));
        assert_eq!(offset(Some(80), false), Some(50));
        assert_eq!(offset(None, true), Some(70));
    }

    #[test]
    fn estimate_counts_without_flows() {
        assert_eq!(
            text(Some(-2_500_000_000), &[]),
            "b: clock moved by -2.5 s, by the times of day, and as exact as these are; no flow joins \
             the machines"
        );
        assert_eq!(ClockOffset::find(None, &[]), None);
    }

    #[test]
    fn single_wrong_flow_does_not_move_the_clock() {
        let mut bounds: Vec<Bound> = (0..100)
            .map(|index| {
                let is_lower = index % 2 == 0;
                bound(is_lower, if is_lower { 900 } else { 1_100 }, index)
            })
            .collect();
        bounds.push(bound(true, 60_000_000_000, 100));
        let offset = ClockOffset::find(None, &bounds).expect("an offset");
        assert_eq!(offset.ns, 1_000);
        assert_eq!(
            offset.notes("b", 0)[1],
            "b: 1 of 101 flows go back in time by up to 60.0 s: the flows contradict each other"
        );
    }

    #[test]
    fn drift_is_told() {
        // The offset grows by 20 ns per 1 ms, and messages take 2 us.
        let bounds: Vec<Bound> = (0..1000)
            .map(|index| {
                let is_lower = index % 2 == 0;
                let latency_ns = if is_lower { -2_000 } else { 2_000 };
                bound(
                    is_lower,
                    20 * i128::from(index) + latency_ns,
                    index * 1_000_000,
                )
            })
            .collect();
        let offset = ClockOffset::find(None, &bounds).expect("an offset");
        let note = &offset.notes("b", 0)[1];
        assert!(
            note.ends_with(": the clocks drift apart by 20.0 ppm"),
            "{note}"
        );
    }

    #[test]
    fn change_of_the_time_of_day_is_told_where_it_matters() {
        let offset = ClockOffset::find(Some(5), &[]).expect("an offset");
        assert_eq!(offset.notes("b", 999_999).len(), 1);
        assert_eq!(offset.notes("b", 1_000_000).len(), 2);
        assert_eq!(ClockOffset::given(5).notes("b", 1_000_000).len(), 1);
    }
}
