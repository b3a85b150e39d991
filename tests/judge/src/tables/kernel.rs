//! When threads get cores, lose them and are woken, by the kernel's events.
//!
//! Events tell of cores. The states of a thread follow from its own turns, apart from all other
//! threads.

use std::collections::HashMap;

use super::listing::Listing;
use super::sched::{KernelEvent, KernelEvents, Kind};

/// The thread of a core that has nothing to do. Each core has its own; all have this number.
const IDLE: i32 = 0;

/// The threads that the kernel's events mention.
pub(super) struct KernelThreads {
    pub(super) threads: Vec<KernelThread>,
    /// The times in which events of any core are missing, in order. They do not overlap.
    pub(super) gaps: Vec<Time>,
    /// The time of the last event.
    pub(super) end_ns: u64,
}

/// A thread, from the first event that mentions it until the kernel forgets it.
pub(super) struct KernelThread {
    pub(super) tid: i32,
    /// Its process, if the trace has it.
    pub(super) pid: Option<i32>,
    pub(super) turns: Vec<Turn>,
    /// `None` if the thread still lives at the end of the trace.
    pub(super) freed_ns: Option<u64>,
}

/// An event of a thread's life.
pub(super) enum Turn {
    /// The thread gets a core.
    On {
        cpu: u32,
        time_ns: u64,
        /// Set if the switch to the thread is missing: it was after this time.
        missing_since_ns: Option<u64>,
    },
    /// The thread loses a core.
    Off { cpu: u32, time_ns: u64, bits: u16 },
    /// Another thread wakes the thread.
    Woken { time_ns: u64 },
    /// Events of the core are missing from this time on.
    Missing { cpu: u32, time_ns: u64 },
}

/// The state of a core.
#[derive(Default)]
struct Core {
    running: Option<i32>,
    last_ns: u64,
    /// The end of the last gap.
    whole_since_ns: Option<u64>,
}

/// A time with an end.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
}

impl KernelThreads {
    pub(super) fn of(events: &KernelEvents, listing: &Listing) -> Self {
        let mut threads = Threads::new(listing);
        let mut cores: HashMap<u32, Core> = HashMap::new();
        for event in &events.events {
            let core = cores.entry(event.cpu).or_default();
            threads.follow(core, event);
        }
        Self {
            threads: threads.all,
            gaps: gaps(&events.events),
            end_ns: events.end_ns,
        }
    }
}

/// Threads while events are followed.
struct Threads<'a> {
    listing: &'a Listing,
    all: Vec<KernelThread>,
    /// The index of the thread that has a number now.
    alive: HashMap<i32, usize>,
}

impl<'a> Threads<'a> {
    fn new(listing: &'a Listing) -> Self {
        Self {
            listing,
            all: Vec::new(),
            alive: HashMap::new(),
        }
    }

    fn follow(&mut self, core: &mut Core, event: &KernelEvent) {
        let (cpu, time_ns) = (event.cpu, event.time_ns);
        if let Kind::Missing { until_ns } = event.kind {
            if let Some(tid) = core.running.take() {
                self.turn(tid, Turn::Missing { cpu, time_ns });
            }
            core.whole_since_ns = Some(until_ns);
            return;
        }
        if let Some(tid) = event.running
            && core.running != Some(tid)
        {
            let mut on_ns = time_ns;
            let mut missing_since_ns = None;
            match core.running {
                // There was no switch, so it has run since events are there.
                None => on_ns = core.whole_since_ns.unwrap_or(time_ns),
                // The kernel has left out a switch.
                Some(before) => {
                    missing_since_ns = Some(core.last_ns);
                    let time_ns = core.last_ns;
                    self.turn(before, Turn::Missing { cpu, time_ns });
                }
            }
            let on = Turn::On {
                cpu,
                time_ns: on_ns,
                missing_since_ns,
            };
            self.turn(tid, on);
            core.running = Some(tid);
        }
        match event.kind {
            Kind::Switch { bits, next } => {
                if let Some(before) = core.running {
                    self.turn(before, Turn::Off { cpu, time_ns, bits });
                }
                let on = Turn::On {
                    cpu,
                    time_ns,
                    missing_since_ns: None,
                };
                self.turn(next, on);
                core.running = Some(next);
            }
            Kind::Woken(tid) => self.turn(tid, Turn::Woken { time_ns }),
            Kind::Begun {
                tid,
                is_of_same_process,
            } => {
                let parent = event.running.and_then(|parent| self.alive(parent).pid);
                let pid = if is_of_same_process {
                    parent
                } else {
                    Some(tid)
                };
                self.free(tid, time_ns);
                self.alive(tid).pid = pid;
                self.turn(tid, Turn::Woken { time_ns });
            }
            Kind::Renamed(tid) => {
                self.alive(tid);
            }
            Kind::Freed(tid) => self.free(tid, time_ns),
            Kind::Missing { .. } | Kind::Other => {}
        }
        core.last_ns = time_ns;
    }

    fn turn(&mut self, tid: i32, turn: Turn) {
        if tid != IDLE {
            self.alive(tid).turns.push(turn);
        }
    }

    /// Returns the thread that has a number now.
    fn alive(&mut self, tid: i32) -> &mut KernelThread {
        let index = *self.alive.entry(tid).or_insert_with(|| {
            self.all.push(KernelThread {
                tid,
                pid: self.listing.pid_of(tid),
                turns: Vec::new(),
                freed_ns: None,
            });
            self.all.len() - 1
        });
        &mut self.all[index]
    }

    fn free(&mut self, tid: i32, time_ns: u64) {
        if let Some(index) = self.alive.remove(&tid) {
            self.all[index].freed_ns = Some(time_ns);
        }
    }
}

/// Joins the gaps of all cores.
fn gaps(events: &[KernelEvent]) -> Vec<Time> {
    let mut gaps: Vec<Time> = Vec::new();
    // They are in the order of time.
    for event in events {
        let Kind::Missing { until_ns } = event.kind else {
            continue;
        };
        match gaps.last_mut() {
            Some(last) if event.time_ns < last.end_ns => {
                last.end_ns = until_ns.max(last.end_ns);
            }
            _ => gaps.push(Time {
                begin_ns: event.time_ns,
                end_ns: until_ns,
            }),
        }
    }
    gaps
}
