//! What threads waited for, and who ended it.

use std::collections::{BTreeSet, HashMap};

use tracezero_reader::kernel::{
    Activity, ActivityTimes, CpuActivity, KernelTimelines, Syscall, ThreadId, ThreadInterval,
    ThreadState, Waker,
};
use tracezero_reader::{NameId, NameTable, TrackId};

use super::instances::Instance;
use crate::thread_states::{SpanLog, Threads};

/// The system call by which a thread gives its core away.
const YIELD: &str = "sched_yield";

/// All that is known of a trace.
#[derive(Debug)]
pub(super) struct Tables<'t> {
    pub(super) log: &'t SpanLog,
    pub(super) timelines: &'t KernelTimelines,
    pub(super) threads: &'t Threads<'t>,
    pub(super) names: &'t NameTable,
}

/// How the time of spans divides, and why.
#[derive(Debug, Default)]
pub(super) struct Breakdown {
    /// The time in which a thread had to do with the spans.
    pub(super) activities: ActivityTimes,
    /// The time in which futures were not polled.
    pub(super) not_polled_ns: u64,
    pub(super) polls: u64,
    causes: HashMap<Cause, Total>,
    /// The gaps in the time, by index.
    gaps: BTreeSet<usize>,
    /// The threads that the spans are on, with their numbers of parts and times.
    pub(super) threads: HashMap<TrackId, (u64, u64)>,
    pub(super) tracks_without_thread: BTreeSet<TrackId>,
}

/// What a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    Core,
    /// The thread could have gone on, and gave its core to others, as locks do before they sleep.
    Yielded,
    /// A word in memory.
    Lock {
        /// Processes may have locks at the same address.
        pid: Option<i32>,
        address: u64,
        /// True if the value that the waiters expect is that of a mutex.
        is_mutex: bool,
    },
    Blocked(Place),
    Sleeping(Place),
    Stopped,
}

/// The place in the kernel where a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Call(&'static str),
    CallNumber(u32),
    /// No system call: the kernel fetches a page of memory.
    NoCall,
    /// The trace has no system calls.
    Unknown,
}

/// The waits of one cause.
#[derive(Clone, Debug, Default)]
pub(super) struct Total {
    pub(super) time_ns: u64,
    pub(super) count: u64,
    /// Who ended the waits, inside of which span, with the number of wake-ups and the time of waits.
    wakers: HashMap<(Waker, NameId), (u64, u64)>,
    /// What the cores did that the threads waited for.
    meanwhile: HashMap<CpuActivity, u64>,
}

impl Breakdown {
    /// Adds the time of a span.
    pub(super) fn add(&mut self, instance: &Instance<'_>, tables: &Tables<'_>) {
        // Polls that overlap, which is against the rules, must not count twice.
        let mut done_ns = instance.span.begin_ns;
        for part in &instance.parts {
            let begin_ns = part.begin_ns.max(done_ns);
            let end_ns = part.end_ns.min(instance.span.end_ns).max(begin_ns);
            self.not_polled_ns += begin_ns - done_ns;
            done_ns = end_ns;
            self.polls += u64::from(instance.is_future);
            let (count, time_ns) = self.threads.entry(part.track).or_default();
            *count += 1;
            *time_ns += end_ns - begin_ns;
            match tables.threads.of_track(part.track) {
                Some(thread) => self.add_states(thread, begin_ns, end_ns, tables),
                None => {
                    self.tracks_without_thread.insert(part.track);
                    self.activities.add(Activity::Unknown, end_ns - begin_ns);
                }
            }
        }
        self.not_polled_ns += instance.span.end_ns.saturating_sub(done_ns);
    }

    fn add_states(&mut self, thread: ThreadId, begin_ns: u64, end_ns: u64, tables: &Tables<'_>) {
        for interval in tables.timelines.states(thread, begin_ns..end_ns) {
            let time_ns = interval.end_ns - interval.begin_ns;
            let activity = Activity::of(&interval);
            self.activities.add(activity, time_ns);
            if let ThreadState::Unknown { gap: Some(gap) } = interval.state {
                self.gaps.insert(gap);
            }
            let Some(cause) = Cause::of(thread, &interval, tables.timelines) else {
                continue;
            };
            let total = self.causes.entry(cause).or_default();
            total.time_ns += time_ns;
            total.count += 1;
            if let ThreadState::Runnable { cpu: Some(cpu), .. } = interval.state {
                for core in tables
                    .timelines
                    .core(cpu, interval.begin_ns..interval.end_ns)
                {
                    let time_ns = total.meanwhile.entry(core.activity).or_default();
                    *time_ns += core.end_ns - core.begin_ns;
                }
            }
            if let Some(wake) = interval.wake {
                let span = match wake.waker {
                    Waker::Thread(waker) => tables.open_span(waker, wake.time_ns),
                    _ => NameId::NONE,
                };
                let (count, waited_ns) = total.wakers.entry((wake.waker, span)).or_default();
                *count += 1;
                *waited_ns += time_ns;
            }
        }
    }

    pub(super) fn total_ns(&self) -> u64 {
        self.activities
            .total_ns()
            .saturating_add(self.not_polled_ns)
    }

    /// Returns the causes, the longest first.
    pub(super) fn causes(&self) -> Vec<(Cause, &Total)> {
        let mut causes: Vec<_> = self
            .causes
            .iter()
            .map(|(cause, total)| (*cause, total))
            .collect();
        causes.sort_by_key(|(cause, total)| (std::cmp::Reverse(total.time_ns), cause.to_string()));
        causes
    }

    /// Returns the number of events that the kernel lost of the cores that matter; 0 if it is not
    /// known.
    pub(super) fn lost_events(&self, timelines: &KernelTimelines) -> u64 {
        let gaps = self.gaps.iter();
        let gaps = gaps.flat_map(|gap| timelines.overlapping_gaps(*gap));
        let cpus: BTreeSet<u32> = gaps.map(|gap| gap.cpu).collect();
        let losses = timelines.losses().iter();
        let losses = losses.filter(|loss| cpus.contains(&loss.cpu));
        losses.map(|loss| loss.events).sum()
    }

    /// Returns true if events are missing in the time.
    pub(super) fn has_lost(&self) -> bool {
        !self.gaps.is_empty()
    }
}

impl Total {
    /// Returns who ended the waits, inside of which span, with the number of wake-ups and the time
    /// of the waits. The longest time comes first.
    pub(super) fn wakers(&self) -> Vec<(Waker, NameId, u64, u64)> {
        let wakers = self.wakers.iter();
        let mut wakers: Vec<_> = wakers
            .map(|((waker, span), (count, time_ns))| (*waker, *span, *count, *time_ns))
            .collect();
        wakers
            .sort_by_key(|(waker, span, _, time_ns)| (std::cmp::Reverse(*time_ns), *waker, *span));
        wakers
    }

    /// Returns what the cores did that the threads waited for, with times. The longest comes first.
    pub(super) fn meanwhile(&self) -> Vec<(CpuActivity, u64)> {
        let mut meanwhile: Vec<_> = self.meanwhile.iter().map(|(it, ns)| (*it, *ns)).collect();
        meanwhile.sort_by_key(|(activity, time_ns)| (std::cmp::Reverse(*time_ns), *activity));
        meanwhile
    }
}

impl Tables<'_> {
    /// Returns the name of the innermost span that a thread is in at a time.
    fn open_span(&self, thread: ThreadId, time_ns: u64) -> NameId {
        let track = self.threads.track_of(thread);
        let span = track.and_then(|track| self.log.innermost_at(track, time_ns));
        span.map_or(NameId::NONE, |span| span.name)
    }
}

impl Cause {
    fn of(
        thread: ThreadId,
        interval: &ThreadInterval,
        timelines: &KernelTimelines,
    ) -> Option<Self> {
        /// The value that mutexes of `std` and of glibc have if threads wait for them.
        const CONTENDED: u32 = 2;
        let wait = || interval.syscall.and_then(|call| call.futex_wait());
        let place = || Place::of(interval.syscall, timelines.counts().calls > 0);
        match (Activity::of(interval), wait()) {
            (Activity::Running | Activity::Unknown, _) => None,
            (Activity::Runnable, _) if place() == Place::Call(YIELD) => Some(Self::Yielded),
            (Activity::Runnable, _) => Some(Self::Core),
            (Activity::Lock, Some(wait)) => Some(Self::Lock {
                pid: timelines.thread(thread).and_then(|thread| thread.pid),
                address: wait.address,
                is_mutex: wait.expected.is_none_or(|expected| expected == CONTENDED),
            }),
            (Activity::Blocked, _) => Some(Self::Blocked(place())),
            (Activity::Stopped, _) => Some(Self::Stopped),
            _ => Some(Self::Sleeping(place())),
        }
    }

    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Yielded => "yielded",
            Self::Lock { .. } => "lock",
            Self::Blocked(_) => "blocked",
            Self::Sleeping(_) => "sleeping",
            Self::Stopped => "stopped",
        }
    }
}

impl Place {
    fn of(call: Option<Syscall>, has_calls: bool) -> Self {
        match call {
            Some(call) => call
                .name()
                .map_or(Self::CallNumber(call.number), Self::Call),
            None if has_calls => Self::NoCall,
            None => Self::Unknown,
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Core => write!(f, "waiting for a core"),
            Self::Yielded => write!(
                f,
                "waiting for a core that it gave away by sched_yield, as locks do before they sleep"
            ),
            Self::Lock {
                address,
                is_mutex: true,
                ..
            } => write!(f, "waiting for a lock (futex {address:#x})"),
            Self::Lock { address, .. } => {
                write!(f, "waiting for a lock or a thread (futex {address:#x})")
            }
            Self::Blocked(place) => write!(f, "blocked on I/O{place}"),
            Self::Sleeping(place) => write!(f, "sleeping{place}"),
            Self::Stopped => write!(f, "stopped"),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(name) => write!(f, " in {name}"),
            Self::CallNumber(number) => write!(f, " in system call {number}"),
            Self::NoCall | Self::Unknown => Ok(()),
        }
    }
}
