//! Makes timelines of events that are in the order of time.
//!
//! The states follow from three kinds of events. A switch takes the core from a thread, and says
//! whether that thread could go on, and gives it to another one. A waking makes a thread that waited
//! runnable. A new thread is runnable. Perfetto's tools derive their table `thread_state` in the same
//! way, except that what follows from a core's first switch in the compact form is kept here, and
//! states are unknown where events are missing.
//!
//! The kernel may also leave out a switch without a word. All other events have the thread that runs,
//! so the next of them shows it.

use std::collections::HashMap;

use super::event::{EventKind, KernelEvent, NO_CPU, Tid};
use super::gaps::{Gap, Gaps};
use super::task_state::{KernelVersion, OffCore};
use crate::names::NameId;

/// The maximum number of changes of states that are kept; they take 800 MB. What threads do after
/// the first for which there is no room is unknown.
const RECORDS_MAX: usize = 1 << 25;
/// The maximum number of gaps that cut a state into pieces. If there are more, what is between the
/// further ones is unknown, too.
const PIECES_MAX: usize = 64;

/// Stands for no system call and no gap.
pub(super) const NONE: u32 = u32::MAX;

/// The state of a thread from a time to that of its next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateRecord {
    pub(super) begin_ns: u64,
    pub(super) state: State,
    /// The core that the thread is on, or in whose queue.
    pub(super) cpu: u16,
    /// What woke the thread. Only if the state is runnable.
    pub(super) waker: WokenBy,
    /// The index of the system call, or of the gap if the state is unknown; or [`NONE`].
    pub(super) detail: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Off(OffCore),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WokenBy {
    /// The state did not begin by a wake-up, or who woke the thread is not known.
    Nobody,
    Interrupt,
    /// The index of a thread.
    Thread(u32),
}

/// The timeline of a thread.
#[derive(Clone, Debug)]
pub(super) struct ThreadRecords {
    pub(super) tid: i32,
    /// The process, if the begin of the thread is in the trace.
    pub(super) process: ProcessOf,
    pub(super) name: NameId,
    /// By time. Each state lasts until the next begins.
    pub(super) records: Vec<StateRecord>,
    /// The time at which the thread was freed, or at which the trace ends.
    pub(super) end_ns: u64,
    /// The system call that the thread is in.
    call: u32,
}

/// What the begin of a thread tells of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessOf {
    /// The begin is not in the trace.
    Unknown,
    /// The thread began a process.
    Itself,
    /// The process is that of the thread with this index, which began earlier.
    Thread(u32),
}

/// What a core does from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuRecord {
    pub(super) begin_ns: u64,
    pub(super) occupant: Occupant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupant {
    Idle,
    Unknown,
    /// The index of a thread.
    Thread(u32),
}

/// The timelines of all threads and cores.
#[derive(Clone, Debug, Default)]
pub(super) struct Built {
    pub(super) threads: Vec<ThreadRecords>,
    /// By number.
    pub(super) cpus: Vec<Vec<CpuRecord>>,
    pub(super) gaps: Gaps,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
}

#[derive(Debug)]
pub(super) struct TimelineBuilder {
    version: KernelVersion,
    built: Built,
    /// The cores' threads now, by number.
    running: Vec<Running>,
    /// The index of the thread that has an id now.
    alive: HashMap<Tid, u32>,
    /// Used again for each state that ends.
    pieces: Vec<Piece>,
    records: usize,
    records_max: usize,
}

/// A part of a state that is not certain.
#[derive(Clone, Copy, Debug)]
struct Piece {
    begin_ns: u64,
    end_ns: u64,
    gap: u32,
}

/// How what is known of the end of a state fits to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Consistent,
    /// A thread that waited has got a core, but nothing has woken it.
    NotWoken,
    /// A switch to the thread is missing, after this time.
    UnknownSince(u64),
}

/// The thread that a core runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// `None` until an event tells it.
    tid: Option<Tid>,
    /// The time of the last event of the core.
    last_ns: u64,
    /// From this time on, no events are missing. `None` if that begin is not known.
    whole_since_ns: Option<u64>,
}

impl TimelineBuilder {
    /// Creates a builder of a trace whose events end at `end_ns`.
    pub(super) fn new(version: KernelVersion, gaps: Gaps, end_ns: u64) -> Self {
        Self {
            version,
            built: Built {
                gaps,
                end_ns,
                ..Built::default()
            },
            running: Vec::new(),
            alive: HashMap::new(),
            pieces: Vec::new(),
            records: 0,
            records_max: RECORDS_MAX,
        }
    }

    /// Adds all events of the trace, in the order of time.
    pub(super) fn add_all(&mut self, events: &[KernelEvent]) {
        self.built.begin_ns = events.first().map_or(0, |event| event.time_ns);
        let gaps = self.built.gaps.all().to_vec();
        let mut gaps = (0..).zip(&gaps).peekable();
        for event in events {
            while let Some((index, gap)) = gaps.next_if(|(_, gap)| gap.begin_ns < event.time_ns) {
                self.lose_core(index, gap);
            }
            if self.records >= self.records_max {
                self.built.end_ns = event.time_ns;
                return;
            }
            self.add(event);
        }
        let end_ns = self.built.end_ns;
        for (index, gap) in gaps.filter(|(_, gap)| gap.begin_ns < end_ns) {
            self.lose_core(index, gap);
        }
    }

    /// Ends all states at the end of the trace.
    pub(super) fn finish(mut self) -> Built {
        let end_ns = self.built.end_ns;
        for index in Vec::from_iter(self.alive.values().copied()) {
            self.close(index, end_ns, Certainty::Consistent);
            self.built.threads[index as usize].end_ns = end_ns;
        }
        self.built
    }

    fn add(&mut self, event: &KernelEvent) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        match event.kind {
            EventKind::Switch { prev_state, next } => {
                if let Some(prev) = self.running(cpu).tid {
                    self.leave_core(cpu, time_ns, prev, prev_state);
                }
                self.enter_core(cpu, time_ns, next, Certainty::Consistent);
            }
            EventKind::Waking {
                tid,
                waker,
                target_cpu,
                is_interrupt,
            } => {
                let waker = waker.or(self.running(cpu).tid);
                let waker = match waker {
                    _ if is_interrupt || waker == Some(Tid::IDLE) => WokenBy::Interrupt,
                    Some(waker) => WokenBy::Thread(self.thread(waker)),
                    None => WokenBy::Nobody,
                };
                self.wake(time_ns, tid, target_cpu, waker);
            }
            EventKind::Ran(tid) => self.note_running(cpu, time_ns, tid),
            EventKind::NewThread {
                tid,
                parent,
                is_thread,
            } => self.begin_thread(time_ns, tid, parent, is_thread),
            EventKind::Freed(tid) => self.end_thread(time_ns, tid),
            EventKind::Named { tid, name } => {
                let index = self.thread(tid);
                self.built.threads[index as usize].name = name;
            }
            EventKind::CallBegin { tid, call } => {
                let index = self.thread(tid);
                self.built.threads[index as usize].call = call.0;
            }
            EventKind::CallEnd(tid) => {
                let index = self.thread(tid);
                self.built.threads[index as usize].call = NONE;
            }
        }
        self.running(cpu).last_ns = time_ns;
    }

    fn running(&mut self, cpu: u16) -> &mut Running {
        let index = usize::from(cpu);
        if index >= self.running.len() {
            let unknown = Running {
                tid: None,
                last_ns: 0,
                whole_since_ns: None,
            };
            self.running.resize(index + 1, unknown);
            self.built.cpus.resize(index + 1, Vec::new());
        }
        &mut self.running[index]
    }

    /// Returns the index of the thread that has an id now.
    fn thread(&mut self, tid: Tid) -> u32 {
        let threads = &mut self.built.threads;
        *self.alive.entry(tid).or_insert_with(|| {
            threads.push(ThreadRecords {
                tid: tid.get(),
                process: ProcessOf::Unknown,
                name: NameId::NONE,
                records: Vec::new(),
                end_ns: 0,
                call: NONE,
            });
            threads.len() as u32 - 1
        })
    }

    fn last(&self, index: u32) -> Option<&StateRecord> {
        self.built.threads[index as usize].records.last()
    }

    /// Notes that a core runs a thread.
    fn note_running(&mut self, cpu: u16, time_ns: u64, tid: Tid) {
        let running = *self.running(cpu);
        match running.tid {
            Some(running) if running == tid => {}
            // No switch is among the events since they are whole, so the thread has run since then.
            None => {
                let since_ns = running.whole_since_ns.unwrap_or(time_ns);
                self.enter_core(cpu, since_ns, tid, Certainty::Consistent);
            }
            // A switch is missing. It was after the last event of the core.
            Some(_) => {
                self.forget_running(cpu, running.last_ns, NONE);
                self.occupy(cpu, running.last_ns, Occupant::Unknown);
                let certainty = Certainty::UnknownSince(running.last_ns);
                self.enter_core(cpu, time_ns, tid, certainty);
            }
        }
    }

    /// Notes that events of a core are missing.
    fn lose_core(&mut self, gap: u32, lost: &Gap) {
        let cpu = lost.cpu as u16;
        let outage = self.built.gaps.outage_of(gap).map_or(NONE, |it| it.first);
        self.forget_running(cpu, lost.begin_ns, outage);
        self.running(cpu).whole_since_ns = Some(lost.end_ns);
        self.occupy(cpu, lost.begin_ns, Occupant::Unknown);
    }

    /// Forgets which thread a core runs. The state of that thread is not known any more.
    fn forget_running(&mut self, cpu: u16, time_ns: u64, gap: u32) {
        let lost = self.running(cpu).tid.take();
        let Some(tid) = lost.filter(|tid| *tid != Tid::IDLE) else {
            return;
        };
        let index = self.thread(tid);
        if self.last(index).is_some_and(|last| last.runs_on(cpu)) {
            self.built.threads[index as usize].call = NONE;
            self.push(index, StateRecord::unknown(time_ns, gap));
        }
    }

    fn occupy(&mut self, cpu: u16, time_ns: u64, occupant: Occupant) {
        let records = &mut self.built.cpus[usize::from(cpu)];
        // A gap may begin in the middle of what was there already.
        let begin_ns = records
            .last()
            .map_or(time_ns, |it| it.begin_ns.max(time_ns));
        records.push(CpuRecord { begin_ns, occupant });
    }

    fn leave_core(&mut self, cpu: u16, time_ns: u64, tid: Tid, bits: u16) {
        if tid == Tid::IDLE {
            return;
        }
        let index = self.thread(tid);
        let certainty = match self.last(index) {
            // The kernel moved the thread to another core, which has told so already.
            Some(last) if last.state == State::Running && last.cpu != cpu => return,
            Some(last) if last.state == State::Running => Certainty::Consistent,
            // The switch to the thread is missing.
            _ => Certainty::UnknownSince(0),
        };
        self.close(index, time_ns, certainty);
        let state = match self.version.decode(bits) {
            OffCore::Invalid => State::Unknown,
            state => State::Off(state),
        };
        self.open(index, time_ns, state, cpu, WokenBy::Nobody);
    }

    fn enter_core(&mut self, cpu: u16, time_ns: u64, tid: Tid, certainty: Certainty) {
        self.running(cpu).tid = Some(tid);
        if tid == Tid::IDLE {
            return self.occupy(cpu, time_ns, Occupant::Idle);
        }
        let index = self.thread(tid);
        self.occupy(cpu, time_ns, Occupant::Thread(index));
        let is_waiting = self.last(index).is_some_and(|last| last.state.is_waiting());
        let certainty = match certainty {
            Certainty::Consistent if is_waiting => Certainty::NotWoken,
            certainty => certainty,
        };
        self.close(index, time_ns, certainty);
        self.open(index, time_ns, State::Running, cpu, WokenBy::Nobody);
    }

    fn wake(&mut self, time_ns: u64, tid: Tid, cpu: u16, waker: WokenBy) {
        if tid == Tid::IDLE {
            return;
        }
        let index = self.thread(tid);
        // A thread that runs, or could, may be woken all the same; that changes nothing.
        let is_waiting = self
            .last(index)
            .is_none_or(|last| last.state.is_waiting() || last.state == State::Unknown);
        if is_waiting {
            self.close(index, time_ns, Certainty::Consistent);
            self.open(index, time_ns, State::RUNNABLE, cpu, waker);
        }
    }

    fn begin_thread(&mut self, time_ns: u64, tid: Tid, parent: Tid, is_thread: bool) {
        if tid == Tid::IDLE {
            return;
        }
        self.end_thread(time_ns, tid);
        let parent = self.thread(parent);
        let index = self.thread(tid);
        self.built.threads[index as usize].process = match is_thread {
            true => ProcessOf::Thread(parent),
            false => ProcessOf::Itself,
        };
        let waker = WokenBy::Thread(parent);
        self.open(index, time_ns, State::RUNNABLE, NO_CPU, waker);
    }

    fn end_thread(&mut self, time_ns: u64, tid: Tid) {
        if let Some(index) = self.alive.get(&tid).copied() {
            self.close(index, time_ns, Certainty::Consistent);
            self.built.threads[index as usize].end_ns = time_ns;
            self.alive.remove(&tid);
        }
    }

    fn open(&mut self, index: u32, begin_ns: u64, state: State, cpu: u16, waker: WokenBy) {
        if state == State::Unknown {
            return self.push(index, StateRecord::unknown(begin_ns, NONE));
        }
        let record = StateRecord {
            begin_ns,
            state,
            cpu,
            waker,
            detail: self.built.threads[index as usize].call,
        };
        self.push(index, record);
    }

    fn push(&mut self, index: u32, record: StateRecord) {
        let records = &mut self.built.threads[index as usize].records;
        let last_ns = records.last().map_or(0, |last| last.begin_ns);
        records.push(StateRecord {
            begin_ns: record.begin_ns.max(last_ns),
            ..record
        });
        self.records += 1;
    }

    /// Ends the last state of a thread. Makes the parts of it unknown that are not certain.
    fn close(&mut self, index: u32, end_ns: u64, certainty: Certainty) {
        let Some(last) = self.last(index).copied() else {
            return;
        };
        // Losses of other cores do not matter to a thread that runs; those of its own core end the
        // state when they begin.
        if matches!(last.state, State::Running | State::Unknown) {
            return;
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let mut pieces_len = 0;
        for outage in self.built.gaps.outages(last.begin_ns, end_ns) {
            let piece = Piece {
                begin_ns: outage.begin_ns.max(last.begin_ns),
                end_ns: outage.end_ns.min(end_ns),
                gap: outage.first,
            };
            let pieces_max = match self.records < self.records_max {
                true => PIECES_MAX,
                false => 1,
            };
            if piece.end_ns <= piece.begin_ns {
                continue;
            }
            match pieces.last_mut() {
                // The last piece takes in all that come, and what is between them.
                Some(last) if pieces_len >= pieces_max => {
                    last.end_ns = end_ns;
                    break;
                }
                _ => pieces.push(piece),
            }
            pieces_len += 1;
        }
        let first = pieces.first().copied();
        let uncertain = match certainty {
            Certainty::Consistent => None,
            Certainty::NotWoken => first,
            Certainty::UnknownSince(since_ns) => Some(Piece {
                begin_ns: since_ns
                    .max(last.begin_ns)
                    .min(first.map_or(u64::MAX, |first| first.begin_ns)),
                end_ns,
                gap: first.map_or(NONE, |first| first.gap),
            }),
        };
        if let Some(uncertain) = uncertain {
            pieces.clear();
            pieces.push(Piece {
                end_ns,
                ..uncertain
            });
        }
        self.replace_parts(index, last, end_ns, &pieces);
        self.pieces = pieces;
    }

    /// Makes pieces of the last state of a thread unknown.
    fn replace_parts(&mut self, index: u32, last: StateRecord, end_ns: u64, pieces: &[Piece]) {
        if pieces.is_empty() {
            return;
        }
        self.built.threads[index as usize].records.pop();
        let mut rest = last;
        for piece in pieces {
            // A wake-up tells how the state before ended, even if nothing else is known.
            if piece.begin_ns > rest.begin_ns || rest.waker != WokenBy::Nobody {
                self.push(index, rest);
            }
            self.push(index, StateRecord::unknown(piece.begin_ns, piece.gap));
            rest = StateRecord {
                begin_ns: piece.end_ns,
                // The wake-up was at the begin of the whole state.
                waker: WokenBy::Nobody,
                ..last
            };
        }
        if rest.begin_ns < end_ns {
            self.push(index, rest);
        }
    }
}

impl StateRecord {
    const fn unknown(begin_ns: u64, gap: u32) -> Self {
        Self {
            begin_ns,
            state: State::Unknown,
            cpu: NO_CPU,
            waker: WokenBy::Nobody,
            detail: gap,
        }
    }

    fn runs_on(&self, cpu: u16) -> bool {
        self.state == State::Running && self.cpu == cpu
    }
}

impl State {
    const RUNNABLE: Self = Self::Off(OffCore::Runnable {
        is_preempted: false,
    });

    /// Returns true if a thread leaves the state by being woken.
    const fn is_waiting(self) -> bool {
        match self {
            Self::Running | Self::Unknown => false,
            Self::Off(state) => !matches!(state, OffCore::Runnable { .. }),
        }
    }
}
