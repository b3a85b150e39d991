//! Measures on made-up traces how often changes are found and how often alarms are false.
//!
//! In the trials that matter, 40 functions are called 2,000 times in each of 10 traces a side. Durations
//! are log-normal, with a standard deviation of the logarithm of 0.5, and each trace is scaled by a
//! factor of up to 3 %. So the standard error of a difference is 0.005, and a change of 2 % is 3.96 of
//! them. `ci/diff.sh` runs them, and prints a table. All seeds are fixed.
//!
//! The short trials have a hundredth of the calls with a hundredth of the variance, which makes the same
//! standard error.

use std::thread;

use super::super::gather::Cells;
use super::super::log_times::{LogTimes, log, points_of_means, points_of_times};
use super::distributions::t_tail;
use super::fit::Fit;
use super::random::Random;
use super::*;

const SEED: u64 = 0x7ace;
/// The share of calls that [`Setting::rare`] makes longer.
const RARE: f64 = 0.01;

/// Made-up traces.
#[derive(Clone, Copy, Debug)]
struct Setting {
    functions: usize,
    traces: usize,
    calls: u64,
    /// The standard deviation of the logarithm of a duration.
    sigma: f64,
    /// The standard deviation of the logarithm of a function's speed from trace to trace.
    sigma_of_traces: f64,
    /// The largest factor that all functions of a trace share, in either direction.
    common_max: f64,
    /// How many times as long the first function takes after.
    first: f64,
    /// How many times as long all functions take after.
    all: f64,
    /// How many times as long 1 % of the calls of the first function take after.
    rare: f64,
    asked: Asked,
}

const LONG: Setting = Setting {
    functions: 40,
    traces: 10,
    calls: 2000,
    sigma: 0.5,
    sigma_of_traces: 0.0,
    common_max: 0.03,
    first: 1.0,
    all: 1.0,
    rare: 1.0,
    asked: Asked {
        absolute: false,
        threshold: None,
    },
};

const SHORT: Setting = Setting {
    calls: 20,
    sigma: 0.05,
    ..LONG
};

/// How often something was claimed.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    trials: u32,
    /// Trials in which the first function is slower, at least perhaps.
    found: u32,
    /// Trials in which the first function is slower with certainty.
    certain: u32,
    /// Trials in which anything is slower with certainty.
    alarms: u32,
    /// Trials in which all functions together are slower with certainty.
    common: u32,
    /// Trials in which the mean of the first function is slower with certainty.
    means: u32,
    /// Other functions that are slower or faster, at least perhaps.
    others: u32,
    /// Trials in which the interval of the first function contains the truth.
    covered: u32,
    /// Trials in which other procedures raise an alarm.
    by: [u32; PROCEDURES.len()],
}

/// Other procedures that raise alarms. All but the last use the estimates of the comparison.
const PROCEDURES: [&str; 5] = [
    "own variance of each name, Bonferroni 1 %",
    "moderated variance, Bonferroni 1 %",
    "false discovery rate of 5 %",
    "interval of 95 % of each name",
    "most powerful test for one of 40 names, noise and change known, 1 %",
];

/// The standard error of a difference in [`LONG`] and [`SHORT`].
const ERROR: f64 = 0.005;
/// The likelihood ratio of the last procedure that 1 % of equal sides exceed, as measured with 100,000
/// draws.
const RATIO_LIMIT: f64 = 9.33;

impl Setting {
    /// Makes the rows of a comparison.
    fn rows(&self, random: &mut Random) -> (Vec<Cells>, Vec<Side>) {
        let mut rows = vec![Vec::new(); self.functions];
        let mut sides = Vec::new();
        for trace in 0..2 * self.traces {
            let is_after = trace >= self.traces;
            sides.push(if is_after { Side::After } else { Side::Before });
            let common = 1.0 + self.common_max * (2.0 * random.uniform() - 1.0);
            for (function, row) in rows.iter_mut().enumerate() {
                let mut typical_ns = 10_000.0 * (1 + function) as f64 * common;
                typical_ns *= (self.sigma_of_traces * random.normal()).exp();
                if is_after {
                    typical_ns *= self.all;
                }
                if is_after && function == 0 {
                    typical_ns *= self.first;
                }
                let mut times = LogTimes::default();
                for _ in 0..self.calls {
                    let mut time_ns = typical_ns * (self.sigma * random.normal()).exp();
                    if is_after && function == 0 && random.uniform() < RARE {
                        time_ns *= self.rare;
                    }
                    let time_ns = time_ns as u64;
                    times.add_log(time_ns, log(time_ns));
                }
                row.push((trace as u32, times));
            }
        }
        (rows, sides)
    }

    fn trial(&self, seed: u64, tally: &mut Tally) {
        let (cells, sides) = self.rows(&mut Random::new(seed));
        let rows: Vec<_> = cells.iter().map(|row| points_of_times(row)).collect();
        let means: Vec<_> = cells.iter().map(|row| points_of_means(row)).collect();
        // No function calls another, so each stack is a name.
        let compared = Comparison::of(&rows, &means, &rows, &sides, self.asked);
        let first = compared.names[0];
        tally.trials += 1;
        tally.found += u32::from(first.verdict <= Verdict::PerhapsSlower);
        tally.certain += u32::from(first.verdict == Verdict::Slower);
        tally.alarms += u32::from(compared.is_alarm());
        let common = compared.common.as_ref();
        tally.common += u32::from(common.is_some_and(|it| it.verdict == Verdict::Slower));
        tally.means += u32::from(compared.means[0].verdict == Verdict::Slower);
        let others = compared.names[1..].iter();
        let others = others.filter(|row| row.verdict != Verdict::Equal);
        tally.others += others.count() as u32;
        let of_all = if self.asked.absolute {
            self.all.ln()
        } else {
            0.0
        };
        let truth = self.first.ln() + of_all + RARE * self.rare.ln();
        let interval = first.estimate.map(|it| it.interval());
        let is_covered = interval.is_some_and(|(low, high)| low <= truth && truth <= high);
        tally.covered += u32::from(is_covered);
        for (count, is_alarm) in tally.by.iter_mut().zip(alarms(&rows, &sides, &compared)) {
            *count += u32::from(is_alarm);
        }
    }

    /// Runs trials on all cores.
    fn run(self, trials: u64) -> Tally {
        let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
        thread::scope(|scope| {
            let part = |first: u64| {
                move || {
                    let mut tally = Tally::default();
                    for trial in (first..trials).step_by(threads as usize) {
                        self.trial(SEED ^ (trial << 20), &mut tally);
                    }
                    tally
                }
            };
            let parts: Vec<_> = (0..threads).map(|first| scope.spawn(part(first))).collect();
            let tallies = parts.into_iter().map(|part| part.join().unwrap());
            tallies.fold(Tally::default(), Tally::plus)
        })
    }
}

/// Tells which of the other procedures raise an alarm.
fn alarms(rows: &[Vec<Point>], sides: &[Side], compared: &Comparison) -> [bool; PROCEDURES.len()] {
    let Some(common) = &compared.common else {
        return [false; PROCEDURES.len()];
    };
    let estimates: Vec<Estimate> = compared.names.iter().filter_map(|it| it.estimate).collect();
    let count = estimates.len() as f64;
    let alone = rows.iter().map(|row| {
        let fit = Fit::of(row, sides, &common.of_traces).unwrap();
        let error = (fit.observed.variance * fit.scale).sqrt();
        t_tail(fit.difference / error, fit.observed.degrees)
    });
    let mut moderated: Vec<f64> = estimates.iter().map(Estimate::p_slower).collect();
    moderated.sort_by(f64::total_cmp);
    let mut by_rank = (1..).zip(&moderated);
    let ratios = estimates.iter().map(|it| {
        let change = 1.02_f64.ln() / ERROR;
        (change * it.difference / ERROR - change * change / 2.0).exp()
    });
    [
        alone.fold(1.0, f64::min) <= 0.01 / count,
        moderated[0] <= 0.01 / count,
        by_rank.any(|(rank, p)| *p <= 0.05 * f64::from(rank) / count),
        moderated[0] <= 0.025,
        ratios.sum::<f64>() / count > RATIO_LIMIT,
    ]
}

impl Tally {
    fn plus(mut self, other: Self) -> Self {
        self.trials += other.trials;
        self.found += other.found;
        self.certain += other.certain;
        self.alarms += other.alarms;
        self.common += other.common;
        self.means += other.means;
        self.others += other.others;
        self.covered += other.covered;
        for (count, more) in self.by.iter_mut().zip(other.by) {
            *count += more;
        }
        self
    }

    fn share(&self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.trials)
    }

    fn print(&self, title: &str) {
        let percent = |count| 100.0 * self.share(count);
        println!(
            "| {title} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} |",
            self.trials,
            percent(self.found),
            percent(self.certain),
            percent(self.alarms),
            percent(self.common),
            percent(self.means),
            percent(self.covered),
            self.share(self.others),
        );
    }
}

#[test]
fn a_function_slower_by_four_errors_is_found() {
    let slower = Setting {
        first: 1.02,
        ..SHORT
    };
    let tally = slower.run(200);
    assert!(tally.share(tally.found) >= 0.95, "{tally:?}");
    assert!(tally.share(tally.certain) >= 0.4, "{tally:?}");
    assert!(tally.share(tally.covered) >= 0.9, "{tally:?}");
}

#[test]
fn equal_sides_hardly_ever_raise_an_alarm() {
    for traces in [2, 3, 10] {
        let tally = Setting { traces, ..SHORT }.run(300);
        assert!(tally.share(tally.alarms) <= 0.02, "{traces}: {tally:?}");
        assert!(tally.share(tally.others) <= 2.5, "{traces}: {tally:?}");
    }
}

#[test]
fn a_factor_of_all_functions_is_told_apart() {
    let tally = Setting { all: 1.1, ..SHORT }.run(50);
    assert_eq!((tally.common, tally.certain), (50, 0), "{tally:?}");
    let absolute = Asked {
        absolute: true,
        ..SHORT.asked
    };
    let tally = Setting {
        all: 1.1,
        asked: absolute,
        ..SHORT
    }
    .run(50);
    assert_eq!(tally.certain, 50, "{tally:?}");
}

#[test]
fn rare_long_calls_are_found_in_the_mean() {
    let slower = Setting {
        calls: 2000,
        rare: 30.0,
        ..SHORT
    };
    let tally = slower.run(20);
    assert!(tally.means >= 18, "{tally:?}");
}

#[test]
fn single_traces_raise_an_alarm_only_beyond_a_threshold() {
    let single = Setting {
        traces: 1,
        first: 1.3,
        ..SHORT
    };
    let tally = single.run(50);
    assert_eq!((tally.found, tally.alarms), (50, 0), "{tally:?}");
    let asked = |percent: f64| Asked {
        threshold: Some((percent / 100.0).ln_1p()),
        ..SHORT.asked
    };
    for (percent, alarms) in [(5.0, 50), (60.0, 0)] {
        let asked = asked(percent);
        let tally = Setting { asked, ..single }.run(50);
        assert_eq!(tally.alarms, alarms, "{tally:?}");
    }
}

#[test]
#[ignore = "takes minutes; ci/diff.sh runs it"]
fn long_trials() {
    println!(
        "| trials of | number | found | certain | alarm | of all | of its mean | interval right | others listed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let slower = Setting {
        first: 1.02,
        ..LONG
    };
    let found = slower.run(200);
    found.print("one function 2 % slower");
    let equal = LONG.run(1000);
    equal.print("equal sides");

    let slower = Setting {
        first: 1.02,
        ..SHORT
    };
    let many_found = slower.run(10_000);
    many_found.print("2 % slower, same noise");
    let many_equal = SHORT.run(10_000);
    many_equal.print("equal, same noise");
    for percent in [2.5, 3.0, 4.0] {
        let first = 1.0 + percent / 100.0;
        let tally = Setting { first, ..SHORT }.run(2000);
        tally.print(&format!("{percent} % slower"));
    }
    for traces in [2, 3, 5] {
        let tally = Setting { traces, ..SHORT }.run(2000);
        tally.print(&format!("equal, {traces} traces a side"));
        let first = 1.05;
        let tally = Setting {
            traces,
            first,
            ..SHORT
        }
        .run(2000);
        tally.print(&format!("5 % slower, {traces} traces a side"));
    }
    let varied = Setting {
        sigma_of_traces: 0.02,
        ..SHORT
    };
    varied
        .run(2000)
        .print("equal, names vary by 2 % from trace to trace");
    for functions in [3, 5, 200] {
        let tally = Setting { functions, ..SHORT }.run(2000);
        tally.print(&format!("equal, {functions} functions"));
    }
    let all = 1.05;
    Setting { all, ..SHORT }.run(2000).print("all 5 % slower");
    for rare in [2.0, 5.0, 30.0] {
        let tally = Setting { rare, ..LONG }.run(200);
        tally.print(&format!(
            "1 % of the calls of one function {rare} times as long"
        ));
    }
    let asked = Asked {
        absolute: true,
        ..SHORT.asked
    };
    let absolute = Setting { asked, ..slower };
    absolute.run(2000).print("2 % slower, --absolute");
    let single = Setting {
        traces: 1,
        sigma_of_traces: 0.02,
        asked: Asked {
            threshold: Some(0.05_f64.ln_1p()),
            ..SHORT.asked
        },
        ..SHORT
    };
    single
        .run(2000)
        .print("equal, 1 trace, --threshold 5%, names vary by 2 %");
    let first = 1.2;
    let slower = Setting { first, ..single };
    slower
        .run(2000)
        .print("20 % slower, 1 trace, --threshold 5%, names vary by 2 %");

    println!("\n| procedure | alarms if one is 2 % slower | alarms if all are equal |");
    println!("|---|---|---|");
    for (index, name) in PROCEDURES.iter().enumerate() {
        println!(
            "| {name} | {:.1} % | {:.1} % |",
            100.0 * many_found.share(many_found.by[index]),
            100.0 * many_equal.share(many_equal.by[index]),
        );
    }
    assert!(found.share(found.found) >= 0.95);
    assert!(equal.share(equal.alarms) <= 0.01);
}
