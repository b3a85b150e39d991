//! The states of threads, by the times at which they get cores and lose them.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::kernel::{KernelThread, KernelThreads, Time, Turn};

/// The states of threads without a core, by the lowest bit of `prev_state` that is set. Higher bits
/// are not valid.
const STATES: [&str; 9] = ["S", "D", "T", "t", "X", "Z", "P", "I", "R+"];

/// The state of a thread that could go on.
const RUNNABLE: &str = "R";

/// A state is known in this number of pieces between gaps at most. What comes then is unknown.
const PIECES_MAX: usize = 64;

/// A state and its begin.
#[derive(Clone, Copy)]
struct Stay {
    begin_ns: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running {
        cpu: u32,
    },
    /// One of [`STATES`], or [`RUNNABLE`].
    Off(&'static str),
    /// The trace does not tell.
    Unknown,
}

/// Which part of a state is not certain, by what ended it.
enum Doubt {
    /// Only gaps.
    Gaps,
    /// All from the first gap on: the thread was woken in one, and may have run.
    FromFirstGap,
    /// All from this time on, or from the first gap.
    From(u64),
}

/// A time in a state: a row of the table.
struct Row {
    time: Time,
    state: State,
}

impl KernelThreads {
    /// Returns, by thread and state, how often the thread was in the state, and how long. `tids` are
    /// the numbers that the tables have for the threads. How many rows stand for unknown times does
    /// not matter; 0 stands for their number.
    pub(super) fn states(&self, tids: &[i32]) -> Json {
        let mut groups: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for (thread, tid) in self.threads.iter().zip(tids) {
            for row in self.rows(thread) {
                let state = match row.state {
                    State::Running { .. } => Some("Running"),
                    State::Off(state) => Some(state),
                    State::Unknown => None,
                };
                let group = groups.entry((tid, state)).or_default();
                group.0 += u64::from(state.is_some());
                group.1 += row.time.end_ns - row.time.begin_ns;
            }
        }
        let rows = groups.into_iter();
        rows.map(|((tid, state), (count, sum))| json!([tid, state, count, sum]))
            .collect()
    }

    /// Returns how often and how long each core ran a thread, and the times of the first and the last
    /// begin.
    pub(super) fn cores(&self) -> Json {
        let mut cores: BTreeMap<_, (u64, u64, u64, u64)> = BTreeMap::new();
        for row in self.threads.iter().flat_map(|thread| self.rows(thread)) {
            let State::Running { cpu } = row.state else {
                continue;
            };
            let Time { begin_ns, end_ns } = row.time;
            let core = cores.entry(cpu).or_insert((0, 0, u64::MAX, 0));
            core.0 += 1;
            core.1 += end_ns - begin_ns;
            core.2 = begin_ns.min(core.2);
            core.3 = begin_ns.max(core.3);
        }
        let rows = cores.into_iter();
        rows.map(|(cpu, (count, sum, first, last))| json!([cpu, count, sum, first, last]))
            .collect()
    }

    /// Returns the states of a thread.
    fn rows(&self, thread: &KernelThread) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut now: Option<Stay> = None;
        for turn in &thread.turns {
            let Some((time_ns, state, doubt)) = turn.changes(now.map(|now| now.state)) else {
                continue;
            };
            let earliest_ns = now.map_or(0, |now| now.begin_ns);
            let begin_ns = time_ns.max(earliest_ns);
            self.end_stay(now, begin_ns, &doubt, &mut rows);
            now = Some(Stay { begin_ns, state });
        }
        let end_ns = thread.freed_ns.unwrap_or(self.end_ns);
        self.end_stay(now, end_ns, &Doubt::Gaps, &mut rows);
        rows.retain(|row| row.time.begin_ns < row.time.end_ns);
        rows
    }

    /// Adds the rows of a state that ends.
    fn end_stay(&self, stay: Option<Stay>, end_ns: u64, doubt: &Doubt, rows: &mut Vec<Row>) {
        let Some(Stay { begin_ns, state }) = stay else {
            return;
        };
        let mut add = |begin_ns, end_ns, state| {
            let time = Time { begin_ns, end_ns };
            rows.push(Row { time, state });
        };
        let mut known_ns = begin_ns;
        // A thread keeps its core, whatever other cores do. A gap of its own is a turn.
        if matches!(state, State::Off(_)) {
            for hole in self.holes(Time { begin_ns, end_ns }, doubt) {
                add(known_ns, hole.begin_ns, state);
                add(hole.begin_ns, hole.end_ns, State::Unknown);
                known_ns = hole.end_ns;
            }
        }
        add(known_ns, end_ns, state);
    }

    /// Returns the parts of a time that are in doubt.
    fn holes(&self, time: Time, doubt: &Doubt) -> Vec<Time> {
        let cut = self.gaps.iter().map(|gap| Time {
            begin_ns: gap.begin_ns.max(time.begin_ns),
            end_ns: gap.end_ns.min(time.end_ns),
        });
        let mut holes: Vec<_> = cut.filter(|it| it.begin_ns < it.end_ns).collect();
        if holes.len() > PIECES_MAX {
            holes.truncate(PIECES_MAX);
            holes[PIECES_MAX - 1].end_ns = time.end_ns;
        }
        let first_ns = holes.first().map(|hole| hole.begin_ns);
        let from_ns = match doubt {
            Doubt::Gaps => return holes,
            Doubt::FromFirstGap => first_ns,
            Doubt::From(from_ns) => {
                let from_ns = *from_ns.max(&time.begin_ns);
                Some(first_ns.map_or(from_ns, |first_ns| first_ns.min(from_ns)))
            }
        };
        let hole = from_ns.map(|begin_ns| Time { begin_ns, ..time });
        hole.into_iter().collect()
    }
}

impl Turn {
    /// Returns the time from which on the thread is in another state, the state, and what is in doubt
    /// of the state before. `None` if the thread stays in its state.
    fn changes(&self, now: Option<State>) -> Option<(u64, State, Doubt)> {
        let is_waiting = matches!(now, Some(State::Off(state)) if !state.starts_with(RUNNABLE));
        match *self {
            Self::On {
                cpu,
                time_ns,
                missing_since_ns,
            } => {
                let doubt = match missing_since_ns {
                    Some(since_ns) => Doubt::From(since_ns),
                    // Nothing has woken it, so that is missing.
                    None if is_waiting => Doubt::FromFirstGap,
                    None => Doubt::Gaps,
                };
                Some((time_ns, State::Running { cpu }, doubt))
            }
            Self::Off { cpu, time_ns, bits } => {
                let doubt = match now {
                    Some(State::Running { cpu: other }) if other == cpu => Doubt::Gaps,
                    // The thread has moved to another core, whose events have told so earlier.
                    Some(State::Running { .. }) => return None,
                    // No event has told that the thread had a core.
                    _ => Doubt::From(0),
                };
                Some((time_ns, State::of_bits(bits), doubt))
            }
            // A thread that could go on may be woken, too. That changes nothing.
            Self::Woken { time_ns } => {
                let is_unknown = matches!(now, None | Some(State::Unknown));
                let state = State::Off(RUNNABLE);
                (is_waiting || is_unknown).then_some((time_ns, state, Doubt::Gaps))
            }
            Self::Missing { cpu, time_ns } => {
                let is_here = now == Some(State::Running { cpu });
                is_here.then_some((time_ns, State::Unknown, Doubt::Gaps))
            }
        }
    }
}

impl State {
    fn of_bits(bits: u16) -> Self {
        match bits {
            0 => Self::Off(RUNNABLE),
            _ if usize::from(bits) >= 1 << STATES.len() => Self::Unknown,
            _ => Self::Off(STATES[bits.trailing_zeros() as usize]),
        }
    }
}
