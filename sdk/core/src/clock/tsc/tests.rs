//! Tests of the conversion, with simulated clocks.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use super::counter::{AHEAD_MAX_NS, ANCHOR_ATTEMPTS, Counter, LINE_TICKS};
use super::pace::{Clocks, MEASUREMENT_TICKS, Pace, READING_MAX_TICKS};

/// The largest error that the docs of `tsc.rs` allow.
const BOUND_NS: i64 = 10_000;

/// The simulated duration of a clock's read.
const READ_NS: u64 = 15;

const MILLISECOND_NS: u64 = 1_000_000;

/// A simulated machine. Its time passes only when a clock is read or a test calls `pass`.
struct Machine {
    counter: Counter,
    /// The counter, in thousandths of ticks.
    ticks_millis: Cell<u64>,
    /// Thousandths of ticks per nanosecond.
    pace_millis: Cell<u64>,
    trace_ps: Cell<u64>,
    /// The difference by which the trace clock is faster than real time, in parts per million.
    slew_ppm: Cell<i64>,
    /// The durations of interruptions before each of the next reads of a clock.
    interruptions_ns: RefCell<VecDeque<u64>>,
    /// True if another thread converts the time whenever this one reads the trace clock.
    has_other_thread: Cell<bool>,
    /// The times that the other thread got.
    seen_by_other_ns: RefCell<Vec<u64>>,
    /// The time on the trace clock at the last read of any clock.
    read_at_ns: Cell<u64>,
    /// The number of reads of the trace clock.
    trace_reads: Cell<u32>,
}

impl Machine {
    /// Creates a machine whose counter has `pace_millis` thousandths of a tick per nanosecond.
    fn new(pace_millis: u64) -> Self {
        Self {
            counter: Counter::new(),
            ticks_millis: Cell::new(7_000_000_000_000),
            pace_millis: Cell::new(pace_millis),
            trace_ps: Cell::new(900_000_000_000_000),
            slew_ppm: Cell::new(0),
            interruptions_ns: RefCell::new(VecDeque::new()),
            has_other_thread: Cell::new(false),
            seen_by_other_ns: RefCell::new(Vec::new()),
            read_at_ns: Cell::new(0),
            trace_reads: Cell::new(0),
        }
    }

    /// Creates a machine at 3 GHz that uses the counter.
    fn started() -> Self {
        let machine = Self::new(3_000);
        machine.start();
        machine
    }

    fn start(&self) {
        assert!(self.try_start());
    }

    fn try_start(&self) -> bool {
        let calibrate = || Pace::calibrate(self).ok_or(());
        self.counter.start_use(calibrate).is_ok()
    }

    fn pass(&self, ns: u64) {
        let ticks_millis = self.ticks_millis.get() + ns * self.pace_millis.get();
        self.ticks_millis.set(ticks_millis);
        let slew_ps = (ns.cast_signed() * self.slew_ppm.get()) / 1_000;
        let trace_ps = self.trace_ps.get() + ns * 1_000;
        self.trace_ps.set(trace_ps.wrapping_add_signed(slew_ps));
    }

    fn interrupt(&self, interruptions_ns: &[u64]) {
        self.interruptions_ns.borrow_mut().extend(interruptions_ns);
    }

    fn before_read(&self) {
        let interruption_ns = self.interruptions_ns.borrow_mut().pop_front();
        self.pass(READ_NS + interruption_ns.unwrap_or(0));
        self.read_at_ns.set(self.trace_ps.get() / 1_000);
    }

    fn now_ns(&self) -> u64 {
        self.counter.now_ns(self)
    }

    /// Converts the time, and returns by how much it is ahead of the trace clock.
    fn ahead_ns(&self) -> i64 {
        let ns = self.now_ns();
        ns.wrapping_sub(self.read_at_ns.get()).cast_signed()
    }

    /// Records an event every 50 µs. Returns the largest distances behind and ahead of the trace
    /// clock.
    fn range_ns(&self, duration_ns: u64) -> (i64, i64) {
        let steps = duration_ns / 50_000;
        let ahead_ns = (0..steps).map(|_| {
            self.pass(50_000);
            self.ahead_ns()
        });
        ahead_ns.fold((0, 0), |(least, most), ns| (ns.min(least), ns.max(most)))
    }

    /// Returns how often `work` reads the trace clock.
    fn trace_reads_of(&self, work: impl FnOnce()) -> u32 {
        let before = self.trace_reads.get();
        work();
        self.trace_reads.get() - before
    }
}

impl Clocks for Machine {
    fn ticks(&self) -> u64 {
        self.before_read();
        self.ticks_millis.get() / 1_000
    }

    fn ticks_in_order(&self) -> u64 {
        self.ticks()
    }

    fn trace_ns(&self) -> u64 {
        self.trace_reads.set(self.trace_reads.get() + 1);
        if self.has_other_thread.replace(false) {
            let seen_ns = self.now_ns();
            self.seen_by_other_ns.borrow_mut().push(seen_ns);
            self.has_other_thread.set(true);
        }
        self.before_read();
        self.read_at_ns.get()
    }

    fn sleep(&self, duration: Duration) {
        self.pass(u64::try_from(duration.as_nanos()).unwrap());
    }
}

#[test]
fn quiet_machine_is_behind_by_less_than_a_quarter_microsecond() {
    let machine = Machine::started();
    let (least, most) = machine.range_ns(3_000 * MILLISECOND_NS);
    assert!(least > -250 && most == 0, "{least} to {most}");
}

#[test]
fn interrupted_reading_is_taken_again() {
    let machine = Machine::started();
    let interrupted = [[0, 30_000, 0], [0, 0, 500_000]].concat();
    machine.pass(2 * MILLISECOND_NS);
    machine.interrupt(&[0, 0]); // The ticks of the event, and those of the line's end.
    machine.interrupt(&interrupted);
    let ahead_ns = machine.ahead_ns();
    assert!((-100..=0).contains(&ahead_ns), "{ahead_ns}");
    assert!(machine.interruptions_ns.borrow().is_empty());
    // The third reading was used, and began a line.
    assert_eq!(machine.trace_reads_of(|| _ = machine.now_ns()), 0);
}

#[test]
fn thread_that_is_always_interrupted_asks_the_system() {
    let machine = Machine::started();
    let interrupted = [2 * READING_MAX_TICKS; 3 * ANCHOR_ATTEMPTS + 4];
    let mut last_ns = 0;
    for _ in 0..100 {
        machine.interrupt(&interrupted);
        let reads = machine.trace_reads_of(|| {
            let ns = machine.now_ns();
            assert_eq!(ns, machine.read_at_ns.get(), "the system's own time");
            assert!(ns > last_ns);
            last_ns = ns;
        });
        assert_eq!(reads as usize, ANCHOR_ATTEMPTS + 1);
        machine.interruptions_ns.borrow_mut().clear();
    }
    // The next event that is not interrupted begins a line.
    assert!((-100..=0).contains(&machine.ahead_ns()));
    assert_eq!(machine.trace_reads_of(|| _ = machine.now_ns()), 0);
}

#[test]
fn interrupted_calibration_is_refused_or_harmless() {
    // Every reading takes too long, so the pace of the counter cannot be measured.
    let machine = Machine::new(3_000);
    machine.interrupt(&[2_000; 150]);
    assert!(!machine.try_start());
    assert!(!machine.counter.is_used());

    // The readings have the largest allowed width, and read the trace clock at the worst moment.
    let width_ns = READING_MAX_TICKS / 3 - 3 * READ_NS;
    for [first, last] in [
        [[0, width_ns, 0], [0, 0, width_ns]],
        [[0, 0, width_ns], [0, width_ns, 0]],
    ] {
        let machine = Machine::new(3_000);
        for reading in [[first; 50], [last; 50]] {
            machine.interrupt(&reading.concat());
        }
        machine.start();
        assert!(machine.interruptions_ns.borrow().is_empty());
        let (least, most) = machine.range_ns(3_000 * MILLISECOND_NS);
        assert!(least > -1_000 && most == 0, "{least} to {most}");
    }
}

#[test]
fn event_after_an_hour_is_where_the_trace_clock_is() {
    let machine = Machine::started();
    machine.now_ns();
    machine.slew_ppm.set(300);
    machine.pass(3_600_000 * MILLISECOND_NS);
    let ahead_ns = machine.ahead_ns();
    assert!((-100..=0).contains(&ahead_ns), "{ahead_ns}");
}

#[test]
fn trace_clock_may_change_its_pace() {
    let machine = Machine::new(1_000);
    machine.start();
    for slew_ppm in [500, 0, -500, 0, -400, 100, 500] {
        machine.slew_ppm.set(slew_ppm);
        let (least, most) = machine.range_ns(1_000 * MILLISECOND_NS);
        assert!(least > -3_000 && most < 3_000, "{least} to {most}");
    }
}

#[test]
fn time_never_goes_back_and_the_bound_holds() {
    for seed in 1..=20_u64 {
        let mut random = seed;
        let mut below = move |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let machine = Machine::new(1_000 + below(4_000));
        machine.start();
        machine.has_other_thread.set(true);
        let (mut last_ns, mut seen) = (0, 0);
        let (mut slew_ppm, mut changed_at) = (0, 0);
        for _ in 0..20_000 {
            // Mostly busy. Sometimes no event is recorded for the length of a line, sometimes for a
            // second.
            machine.pass(match below(100) {
                0 => below(1_000 * MILLISECOND_NS),
                1..10 => below(3 * MILLISECOND_NS),
                _ => below(5_000),
            });
            if below(50) == 0 {
                machine.interrupt(&[0, below(2_000), below(2_000), below(100_000), 0, 700]);
            }
            // Change the pace no more than the kernel may from one measurement to the next.
            let now = machine.ticks_millis.get() / 1_000;
            if now - changed_at > 3 * MEASUREMENT_TICKS {
                changed_at = now;
                slew_ppm = (slew_ppm + below(901).cast_signed() - 450).clamp(-500, 500);
                machine.slew_ppm.set(slew_ppm);
            }
            let ns = machine.now_ns();
            let ahead_ns = ns.wrapping_sub(machine.read_at_ns.get()).cast_signed();
            assert!(ahead_ns.abs() < BOUND_NS, "{ahead_ns}, seed {seed}");
            let all = machine.seen_by_other_ns.borrow();
            for seen_ns in &all[seen..] {
                assert!((last_ns..=ns).contains(seen_ns), "seed {seed}");
            }
            seen = all.len();
            assert!(ns >= last_ns, "seed {seed}");
            last_ns = ns;
        }
        assert!(seen > 100, "two threads met");
    }
}

#[test]
fn other_threads_do_not_wait_for_the_one_that_anchors() {
    let machine = Machine::started();
    let before_ns = machine.now_ns();
    // Let the line end ahead of the trace clock.
    machine.slew_ppm.set(-500);
    machine.pass(LINE_TICKS / 3 + 1);
    machine.has_other_thread.set(true);
    let ns = machine.now_ns();
    let seen = machine.seen_by_other_ns.borrow();
    assert!(seen.len() >= ANCHOR_ATTEMPTS);
    assert!(seen.is_sorted() && before_ns <= seen[0] && *seen.last().unwrap() <= ns);
}

#[test]
fn suspend_with_a_standing_counter_does_not_change_the_pace() {
    let machine = Machine::started();
    machine.range_ns(500 * MILLISECOND_NS);
    // Within half a second of ticks, the trace clock advances by a minute.
    machine
        .trace_ps
        .set(machine.trace_ps.get() + 60_000_000_000_000);
    machine.range_ns(2 * MILLISECOND_NS);
    let (least, most) = machine.range_ns(1_000 * MILLISECOND_NS);
    assert!(least > -250 && most == 0, "{least} to {most}");
}

#[test]
fn conversion_recovers_after_a_move_to_another_machine() {
    let machine = Machine::started();
    machine.range_ns(500 * MILLISECOND_NS);
    for (pace_millis, ticks_millis) in [(2_000, 5_000), (4_500, 1 << 60), (3_000, 1 << 40)] {
        machine.pace_millis.set(pace_millis);
        machine.ticks_millis.set(ticks_millis);
        let (least, most) = machine.range_ns(600 * MILLISECOND_NS);
        let farthest = 2 * AHEAD_MAX_NS.cast_signed();
        assert!(least > -farthest && most < farthest, "{least} to {most}");
        let (least, most) = machine.range_ns(1_000 * MILLISECOND_NS);
        assert!(least > -250 && most == 0, "{least} to {most}");
    }
}

#[test]
fn time_steps_back_only_if_it_is_far_ahead() {
    let machine = Machine::started();
    let set_back = |ns| {
        machine.pass(2 * MILLISECOND_NS);
        machine.now_ns(); // A line begins.
        machine.trace_ps.set(machine.trace_ps.get() - ns * 1_000);
        machine.pass(LINE_TICKS / 3 + 1);
        let before_ns = machine.counter.now_ns(&machine);
        before_ns.wrapping_sub(machine.read_at_ns.get())
    };
    let little = AHEAD_MAX_NS * 9 / 10;
    assert!(set_back(little) > little - 2_000);
    let (_, most) = machine.range_ns(4 * MILLISECOND_NS);
    assert!(most < little.cast_signed());
    let (least, most) = machine.range_ns(4 * MILLISECOND_NS);
    assert!(least > -250 && most == 0, "{least} to {most}");
    let ahead_ns = set_back(AHEAD_MAX_NS * 11 / 10).cast_signed();
    assert!((-100..=0).contains(&ahead_ns), "{ahead_ns}");
}

#[test]
fn counter_that_starts_again_follows_the_system_clock() {
    let machine = Machine::started();
    for _ in 0..1_000 {
        let by_counter_ns = machine.now_ns();
        machine.counter.end_use();
        let by_system_ns = machine.trace_ns();
        assert!(by_counter_ns <= by_system_ns);
        machine.start();
        assert!(by_system_ns <= machine.now_ns());
        machine.pass(70_000);
    }
    // The pace is known already, so it is not measured again.
    let again: Result<(), Infallible> = machine.counter.start_use(|| unreachable!());
    assert!(again.is_ok());
}
