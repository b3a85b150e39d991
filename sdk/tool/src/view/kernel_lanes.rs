//! What cores and threads did, from the kernel's half of a trace, and its encoding for the page.
//!
//! ```text
//! merged     length in nanoseconds: shorter pieces are merged with neighbours; 0 if none are
//! threads    count | thread's name | process's name (strings) | tid | pid + 1, 0 if unknown
//! tracks     count | track, as differences | strip
//! cores      count | number of each | number of pieces of each
//!            begin of all pieces, after the end of the one before | duration | thread + 1, 0 if
//!            unknown | state afterwards + 1, 0 if unknown; or MERGED + sixteenths that are busy
//! strips     count | thread of each | number of pieces of each
//!            begin of all pieces, as above | duration | state, plus MERGED if merged |
//!            core + 1, 0 if none | system call (string) | waker: 0 none, 1 interrupt, thread + 2
//! ```
//!
//! A strip is the states of a thread that has events. A core has no pieces while it is idle.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

use tracezero_reader::kernel::{
    Activity, CpuActivity, KernelTimelines, ThreadId, ThreadInterval, ThreadState, Waker,
};

use super::columns::{write_column, write_differences, write_list, write_varint};
use super::merge::{CLASSES, Merged, Piece, merge};
use super::strings::{StringId, StringTable};
use super::timeline::TrackIndex;
use crate::units::duration;

/// The maximum number of pieces of all lanes. They take about 7 MB in the page. If there are more,
/// short ones are merged.
const PIECES_MAX: u64 = 1 << 20;
/// The smallest length below which pieces are merged, if any are.
const MERGED_MIN_NS: u64 = 1000;
/// Marks merged pieces.
const MERGED: u8 = 16;

/// The kernel's half of a trace.
#[derive(Debug)]
pub(crate) struct KernelHalf {
    pub(crate) timelines: KernelTimelines,
    /// The threads that have events, with their tracks, by track.
    pub(crate) threads: Vec<(TrackIndex, ThreadId)>,
    /// The part that is shown.
    pub(crate) range: Range<u64>,
}

/// The lanes of cores and the strips of threads, ready to be written.
#[derive(Debug, Default)]
pub(crate) struct KernelLanes {
    /// 0 if nothing is merged.
    shorter_than_ns: u64,
    /// The number of pieces that were merged with others.
    merged: u64,
    threads: ThreadTable,
    tracks: Vec<(TrackIndex, u64)>,
    cores: Vec<Lane<CorePiece>>,
    strips: Vec<Lane<StatePiece>>,
}

/// The pieces of a core, or of a thread.
#[derive(Debug)]
struct Lane<P> {
    /// The number of the core, or of the thread in the page.
    number: u64,
    pieces: Vec<P>,
}

/// A time in which a core ran a thread.
#[derive(Clone, Copy, Debug)]
struct CorePiece {
    begin_ns: u64,
    end_ns: u64,
    thread: u64,
    after: u8,
}

/// A time in which a thread was in one state.
#[derive(Clone, Copy, Debug)]
struct StatePiece {
    begin_ns: u64,
    end_ns: u64,
    state: u8,
    core: u64,
    call: StringId,
    waker: u64,
}

/// The threads that lanes refer to.
#[derive(Debug, Default)]
struct ThreadTable {
    numbers: HashMap<ThreadId, u64>,
    threads: Vec<ThreadEntry>,
}

#[derive(Clone, Copy, Debug)]
struct ThreadEntry {
    name: StringId,
    process: StringId,
    tid: u64,
    pid: u64,
}

impl KernelLanes {
    /// Makes the lanes of a part of the trace.
    pub(crate) fn new(half: &KernelHalf, shown: Range<u64>, strings: &mut StringTable) -> Self {
        Self::with_limit(half, shown, strings, PIECES_MAX)
    }

    fn with_limit(
        half: &KernelHalf,
        shown: Range<u64>,
        strings: &mut StringTable,
        pieces_max: u64,
    ) -> Self {
        let begin_ns = half.range.start.max(shown.start);
        let range = begin_ns..half.range.end.min(shown.end).max(begin_ns);
        let source = Source {
            timelines: &half.timelines,
            range,
        };
        let mut lanes = Self::default();
        let threads = lanes.number_strips(half, strings);
        lanes.shorter_than_ns = source.merge_limit(&threads, pieces_max);
        for cpu in half.timelines.cores() {
            lanes.add_core(&source, cpu, strings);
        }
        for thread in threads {
            lanes.add_strip(&source, thread, strings);
        }
        lanes
    }

    /// Returns the number of pieces of all lanes.
    pub(crate) fn piece_count(&self) -> u64 {
        let cores = self.cores.iter().map(|lane| lane.pieces.len());
        let strips = self.strips.iter().map(|lane| lane.pieces.len());
        cores.chain(strips).sum::<usize>() as u64
    }

    /// Returns a message about what was merged; empty if nothing was.
    pub(crate) fn merged_text(&self) -> String {
        if self.merged == 0 {
            return String::new();
        }
        format!(
            "{} times on cores and states of threads, each shorter than {}, are merged with their \
             neighbours. A part of the trace, with `--from` and `--to`, shows more of them.",
            self.merged,
            duration(self.shorter_than_ns)
        )
    }

    /// Writes all columns. `since_start` converts times of the trace to those of the page.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    pub(crate) fn write(
        &self,
        since_start: impl Fn(u64) -> u64,
        out: &mut impl Write,
    ) -> io::Result<()> {
        write_varint(out, self.shorter_than_ns)?;
        let threads = &self.threads.threads;
        write_list(out, threads.iter().map(|it| u64::from(it.name.0)))?;
        write_column(out, threads.iter().map(|it| u64::from(it.process.0)))?;
        write_column(out, threads.iter().map(|it| it.tid))?;
        write_column(out, threads.iter().map(|it| it.pid))?;

        write_varint(out, self.tracks.len() as u64)?;
        let tracks = self.tracks.iter();
        write_differences(out, tracks.clone().map(|(track, _)| i64::from(track.0)))?;
        write_column(out, tracks.map(|(_, strip)| *strip))?;

        let time_of = |it: &CorePiece| (it.begin_ns, it.end_ns);
        let pieces = || self.cores.iter().flat_map(|lane| &lane.pieces);
        write_lanes(&self.cores, time_of, &since_start, out)?;
        write_column(out, pieces().map(|it| it.thread))?;
        write_column(out, pieces().map(|it| u64::from(it.after)))?;

        let time_of = |it: &StatePiece| (it.begin_ns, it.end_ns);
        let pieces = || self.strips.iter().flat_map(|lane| &lane.pieces);
        write_lanes(&self.strips, time_of, &since_start, out)?;
        write_column(out, pieces().map(|it| u64::from(it.state)))?;
        write_column(out, pieces().map(|it| it.core))?;
        write_column(out, pieces().map(|it| u64::from(it.call.0)))?;
        write_column(out, pieces().map(|it| it.waker))
    }

    /// Gives each thread that has tracks a strip. Returns the threads in the order of strips.
    fn number_strips(&mut self, half: &KernelHalf, strings: &mut StringTable) -> Vec<ThreadId> {
        let mut threads = Vec::new();
        let mut strips: HashMap<ThreadId, u64> = HashMap::new();
        for (track, thread) in &half.threads {
            let strip = *strips.entry(*thread).or_insert_with(|| {
                self.threads.number(*thread, &half.timelines, strings);
                threads.push(*thread);
                threads.len() as u64 - 1
            });
            self.tracks.push((*track, strip));
        }
        threads
    }

    fn add_core(&mut self, source: &Source<'_>, cpu: u32, strings: &mut StringTable) {
        let mut pieces = Vec::new();
        for merged in merge(source.core(cpu), self.shorter_than_ns) {
            self.count(&merged);
            let thread = match merged.what {
                CpuActivity::Thread(thread) => {
                    self.threads.number(thread, source.timelines, strings) + 1
                }
                _ => 0,
            };
            pieces.push(CorePiece {
                begin_ns: merged.begin_ns,
                end_ns: merged.end_ns,
                thread,
                after: source.after(&merged),
            });
        }
        self.cores.push(Lane {
            number: u64::from(cpu),
            pieces,
        });
    }

    fn add_strip(&mut self, source: &Source<'_>, thread: ThreadId, strings: &mut StringTable) {
        let mut pieces = Vec::new();
        for merged in merge(source.states(thread), self.shorter_than_ns) {
            self.count(&merged);
            let mut piece = StatePiece {
                begin_ns: merged.begin_ns,
                end_ns: merged.end_ns,
                state: merged.class,
                core: 0,
                call: StringId::default(),
                waker: 0,
            };
            if merged.pieces > 1 {
                piece.state |= MERGED;
            } else {
                piece.core = core_of(merged.what.state).map_or(0, |cpu| u64::from(cpu) + 1);
                piece.call = strings.add(&call_text(&merged.what));
                // A wake-up after the end of what is shown is not shown either.
                let wake = merged.what.wake;
                let wake = wake.filter(|wake| wake.time_ns <= merged.end_ns);
                piece.waker = match wake.map(|wake| wake.waker) {
                    None => 0,
                    Some(Waker::Thread(waker)) => {
                        self.threads.number(waker, source.timelines, strings) + 2
                    }
                    Some(_) => 1,
                };
            }
            pieces.push(piece);
        }
        self.strips.push(Lane {
            number: self.threads.number(thread, source.timelines, strings),
            pieces,
        });
    }

    const fn count<T>(&mut self, merged: &Merged<T>) {
        if merged.pieces > 1 {
            self.merged += merged.pieces;
        }
    }
}

impl ThreadTable {
    /// Returns the number of a thread in the page.
    fn number(
        &mut self,
        id: ThreadId,
        timelines: &KernelTimelines,
        strings: &mut StringTable,
    ) -> u64 {
        if let Some(number) = self.numbers.get(&id) {
            return *number;
        }
        let number = self.threads.len() as u64;
        let names = timelines.names();
        let thread = timelines.thread(id);
        let mut text = |name| strings.add(names.text(name));
        self.threads.push(ThreadEntry {
            name: thread.map_or(StringId::default(), |it| text(it.name)),
            process: thread.map_or(StringId::default(), |it| text(it.process_name)),
            tid: thread.map_or(0, |it| u64::try_from(it.tid).unwrap_or_default()),
            pid: thread
                .and_then(|it| it.pid)
                .map_or(0, |pid| u64::try_from(pid).map_or(0, |pid| pid + 1)),
        });
        self.numbers.insert(id, number);
        number
    }
}

/// The part of the timelines that is shown.
#[derive(Debug)]
struct Source<'t> {
    timelines: &'t KernelTimelines,
    range: Range<u64>,
}

impl Source<'_> {
    /// Returns the pieces of a core, without those in which it is idle.
    fn core(&self, cpu: u32) -> impl Iterator<Item = Piece<CpuActivity>> {
        let all = self.timelines.core(cpu, self.range.clone());
        let busy = all.filter(|interval| interval.activity != CpuActivity::Idle);
        busy.map(|interval| Piece {
            begin_ns: interval.begin_ns,
            end_ns: interval.end_ns,
            class: 0,
            what: interval.activity,
        })
    }

    /// Returns the states of a thread, without what is not known before its first event and after
    /// its end.
    fn states(&self, thread: ThreadId) -> impl Iterator<Item = Piece<ThreadInterval>> {
        let Range { start, end } = self.range;
        let all = self.timelines.states(thread, start..end);
        let known = all.filter(move |it| {
            let is_at_edge = it.begin_ns == start || it.end_ns == end;
            !is_at_edge || it.state != (ThreadState::Unknown { gap: None })
        });
        known.map(|interval| Piece {
            begin_ns: interval.begin_ns,
            end_ns: interval.end_ns,
            class: state_code(&interval),
            what: interval,
        })
    }

    /// Returns the length below which pieces must be merged for the page to have no more than
    /// `pieces_max`; 0 if it has no more anyway.
    fn merge_limit(&self, threads: &[ThreadId], pieces_max: u64) -> u64 {
        let count = |shorter_than_ns| {
            let cores = self.timelines.cores();
            let cores = cores.map(|cpu| merge(self.core(cpu), shorter_than_ns).count());
            let strips = threads.iter();
            let strips = strips.map(|thread| merge(self.states(*thread), shorter_than_ns).count());
            cores.chain(strips).sum::<usize>() as u64
        };
        let mut shorter_than_ns = 0_u64;
        // Beyond the length of the trace, a longer limit merges nothing more.
        while count(shorter_than_ns) > pieces_max
            && shorter_than_ns < self.range.end - self.range.start
        {
            shorter_than_ns = shorter_than_ns.saturating_mul(2).max(MERGED_MIN_NS);
        }
        shorter_than_ns
    }

    /// Returns what the page says of a core's piece: the state of the thread afterwards, or how busy
    /// the core was if the piece is merged.
    fn after(&self, piece: &Merged<CpuActivity>) -> u8 {
        if piece.pieces > 1 {
            let length_ns = u128::from(piece.end_ns - piece.begin_ns).max(1);
            let sixteenths = (u128::from(piece.covered_ns) * 16).div_ceil(length_ns);
            return MERGED + sixteenths.min(16) as u8;
        }
        let CpuActivity::Thread(thread) = piece.what else {
            return 0;
        };
        let after = self.timelines.states(
            thread,
            piece.end_ns..piece.end_ns.saturating_add(1).min(self.range.end),
        );
        let after = after.map(|interval| state_code(&interval)).next();
        after.map_or(0, |code| code + 1)
    }
}

/// Returns the number of a state in the page, which has the same list in `page/states.js`.
fn state_code(interval: &ThreadInterval) -> u8 {
    const UNKNOWN: u8 = 12;
    const LOST: u8 = 13;
    const _: () = assert!((LOST as usize) < CLASSES && CLASSES <= MERGED as usize);
    match interval.state {
        ThreadState::Running { .. } => 0,
        ThreadState::Runnable {
            is_preempted: false,
            ..
        } => 1,
        ThreadState::Runnable { .. } => 2,
        ThreadState::Sleeping if Activity::of(interval) == Activity::Lock => 3,
        ThreadState::Blocked => 4,
        ThreadState::Sleeping => 5,
        ThreadState::Stopped => 6,
        ThreadState::Traced => 7,
        ThreadState::Dead => 8,
        ThreadState::Zombie => 9,
        ThreadState::Parked => 10,
        ThreadState::Idle => 11,
        ThreadState::Unknown { gap: Some(_) } => LOST,
        _ => UNKNOWN,
    }
}

const fn core_of(state: ThreadState) -> Option<u32> {
    match state {
        ThreadState::Running { cpu } => Some(cpu),
        ThreadState::Runnable { cpu, .. } => cpu,
        _ => None,
    }
}

/// Returns the system call that a thread waits in, with the word in memory if it waits for one.
/// Empty if there is none.
fn call_text(interval: &ThreadInterval) -> String {
    // A thread that runs may leave the call and enter others.
    let is_waiting = !matches!(
        interval.state,
        ThreadState::Running { .. } | ThreadState::Runnable { .. }
    );
    let Some(call) = interval.syscall.filter(|_| is_waiting) else {
        return String::new();
    };
    let name = match call.name() {
        Some(name) => name.to_owned(),
        None => format!("system call {}", call.number),
    };
    match call.futex_wait() {
        Some(wait) => format!("{name} {:#x}", wait.address),
        None => name,
    }
}

/// Writes the numbers of lanes, and the times of their pieces.
fn write_lanes<P>(
    lanes: &[Lane<P>],
    time_of: impl Fn(&P) -> (u64, u64),
    since_start: impl Fn(u64) -> u64,
    out: &mut impl Write,
) -> io::Result<()> {
    write_list(out, lanes.iter().map(|lane| lane.number))?;
    write_column(out, lanes.iter().map(|lane| lane.pieces.len() as u64))?;
    for lane in lanes {
        let mut end_before_ns = 0;
        for piece in &lane.pieces {
            let (begin_ns, end_ns) = time_of(piece);
            let begin_ns = since_start(begin_ns).max(end_before_ns);
            write_varint(out, begin_ns - end_before_ns)?;
            end_before_ns = since_start(end_ns).max(begin_ns);
        }
    }
    let pieces = lanes.iter().flat_map(|lane| &lane.pieces);
    let durations = pieces.map(|piece| {
        let (begin_ns, end_ns) = time_of(piece);
        since_start(end_ns).saturating_sub(since_start(begin_ns))
    });
    write_column(out, durations)
}

#[cfg(test)]
mod tests;
