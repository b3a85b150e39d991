//! What each thread and each core did, and when.

use std::collections::HashMap;
use std::ops::Range;

use tracezero_kernel::syscalls::Machine;

use super::builder::{
    Built, NONE, Occupant, ProcessOf, State, StateRecord, ThreadRecords, WokenBy,
};
use super::collect::KernelCounts;
use super::event::{Call, NO_CPU};
use super::gaps::{CpuLoss, Gap};
use super::process_tree::{Listed, ProcessTree};
use super::syscall::Syscall;
use super::task_state::OffCore;
use crate::names::{NameId, NameTable};

/// The timelines of all threads and cores of a trace.
///
/// Memory: 24 bytes for each change of a thread's state, and 16 for each switch.
#[derive(Clone, Debug)]
pub struct KernelTimelines {
    built: Built,
    calls: Vec<Call>,
    names: NameTable,
    tree: ProcessTree,
    machine: Option<Machine>,
    losses: Vec<CpuLoss>,
    counts: KernelCounts,
    /// The processes of all threads.
    pids: Vec<Option<i32>>,
    /// The threads that have had an id, by id.
    by_tid: HashMap<i32, Vec<ThreadId>>,
    /// Ids in the initial namespace, by ids of process and thread in theirs.
    own_ids: HashMap<(i32, i32), i32>,
}

/// The id of a thread in [`KernelTimelines`]. Two threads that had the same number one after the
/// other have different ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(u32);

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thread {
    /// The id of the thread in the timelines.
    pub id: ThreadId,
    /// The number of the thread, in the initial namespace.
    pub tid: i32,
    /// The number of its process, in the initial namespace, if the trace has it.
    pub pid: Option<i32>,
    /// The name of the thread.
    pub name: NameId,
    /// The name of its process.
    pub process_name: NameId,
    /// The time of the first event of the thread.
    pub begin_ns: u64,
    /// The time at which the kernel forgot the thread, or at which the trace ends.
    pub end_ns: u64,
}

/// A time in which a thread was in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadInterval {
    /// The begin of the interval.
    pub begin_ns: u64,
    /// The end of the interval.
    pub end_ns: u64,
    /// The state of the thread.
    pub state: ThreadState,
    /// The system call that the thread was in when the interval began.
    pub syscall: Option<Syscall>,
    /// The wake-up that ended the state. It is later than `end_ns` if the interval was cut off.
    pub wake: Option<Wake>,
}

/// A state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadState {
    /// It has a core.
    Running {
        /// The core.
        cpu: u32,
    },
    /// It could go on, but has no core.
    Runnable {
        /// The core in whose queue it is.
        cpu: Option<u32>,
        /// True if it ran, and its core was taken away.
        is_preempted: bool,
    },
    /// It sleeps until something happens, or a signal comes (`S`).
    Sleeping,
    /// It waits inside of the kernel and takes no signals, mostly for a disk (`D`).
    Blocked,
    /// It was stopped by a signal (`T`).
    Stopped,
    /// It was stopped by a debugger (`t`).
    Traced,
    /// It has ended (`X`).
    Dead,
    /// It has ended, and its parent has not noticed (`Z`).
    Zombie,
    /// A thread of the kernel that is set aside (`P`).
    Parked,
    /// A thread of the kernel that has nothing to do (`I`).
    Idle,
    /// The trace does not tell.
    Unknown {
        /// The index of a gap in [`KernelTimelines::gaps`], if events are missing: the first of
        /// [those that overlap](KernelTimelines::overlapping_gaps). `None` if the trace has nothing of
        /// the thread before, or has ended, or contradicts itself.
        gap: Option<usize>,
    },
}

/// A wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wake {
    /// The time of the wake-up.
    pub time_ns: u64,
    /// What woke the thread.
    pub waker: Waker,
}

/// What woke a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Waker {
    /// A thread.
    Thread(ThreadId),
    /// An interrupt: a timer, or a device.
    Interrupt,
}

/// A time in which a core did one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuInterval {
    /// The begin of the interval.
    pub begin_ns: u64,
    /// The end of the interval.
    pub end_ns: u64,
    /// What the core did.
    pub activity: CpuActivity,
}

/// What a core does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CpuActivity {
    /// It runs a thread.
    Thread(ThreadId),
    /// It has nothing to do.
    Idle,
    /// The trace does not tell.
    Unknown,
}

impl ThreadId {
    /// Returns the id as an index. Ids count from 0 without gaps.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl KernelTimelines {
    pub(super) fn new(
        built: Built,
        calls: Vec<Call>,
        tree: ProcessTree,
        names: NameTable,
        machine: Option<Machine>,
        losses: Vec<CpuLoss>,
        counts: KernelCounts,
    ) -> Self {
        let mut by_tid: HashMap<i32, Vec<ThreadId>> = HashMap::new();
        let mut pids: Vec<Option<i32>> = Vec::with_capacity(built.threads.len());
        for (index, thread) in (0..).zip(&built.threads) {
            by_tid.entry(thread.tid).or_default().push(ThreadId(index));
            pids.push(match thread.process {
                ProcessOf::Itself => Some(thread.tid),
                ProcessOf::Thread(other) => pids.get(other as usize).copied().flatten(),
                ProcessOf::Unknown => tree.pid_of(thread.tid),
            });
        }
        Self {
            pids,
            by_tid,
            own_ids: tree.own_ids().collect(),
            built,
            calls,
            names,
            tree,
            machine,
            losses,
            counts,
        }
    }

    /// Returns the numbers of packets and events that the timelines are made of.
    #[must_use]
    pub const fn counts(&self) -> KernelCounts {
        self.counts
    }

    /// Returns the names of threads and processes.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        &self.names
    }

    /// Returns the kind of machine that the trace is from, if its system calls are known.
    #[must_use]
    pub const fn machine(&self) -> Option<Machine> {
        self.machine
    }

    /// Returns the time of the first event and that of the last. Empty if there are none.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.built.begin_ns..self.built.end_ns
    }

    /// Returns the times in which events are missing, by begin.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        self.built.gaps.all()
    }

    /// Returns the gaps that overlap with each other, from the one with this index on. A thread in an
    /// unknown state may have been on the core of any of them.
    #[must_use]
    pub fn overlapping_gaps(&self, gap: usize) -> &[Gap] {
        let gap = u32::try_from(gap).unwrap_or(u32::MAX);
        self.built.gaps.with_overlapping(gap)
    }

    /// Returns the cores whose buffers in the kernel lost events, with the numbers of events.
    #[must_use]
    pub fn losses(&self) -> &[CpuLoss] {
        &self.losses
    }

    /// Returns all threads.
    pub fn threads(&self) -> impl Iterator<Item = Thread> {
        (0..self.built.threads.len() as u32).map(|index| self.describe(ThreadId(index)))
    }

    /// Returns the processes that the trace lists, and then the threads, whether or not they have events.
    #[must_use]
    pub fn listed(&self) -> Vec<Listed> {
        self.tree.listed()
    }

    /// Returns a thread.
    #[must_use]
    pub fn thread(&self, id: ThreadId) -> Option<Thread> {
        self.records(id).map(|_| self.describe(id))
    }

    /// Returns the thread that had these numbers at a time. Processes in a namespace of their own know
    /// their numbers in it; the trace has both if it has process trees.
    ///
    /// Perfetto's tracks have numbers of the first kind or the second, and do not say which. If both
    /// fit, the initial namespace is preferred, provided that the trace says that the thread is of
    /// this process.
    #[must_use]
    pub fn find_thread(&self, pid: i32, tid: i32, time_ns: u64) -> Option<ThreadId> {
        let direct = self.with_tid(tid, time_ns);
        let direct = direct.map(|id| (id, self.describe(id).pid));
        let own = || self.with_tid(*self.own_ids.get(&(pid, tid))?, time_ns);
        match direct {
            Some((id, Some(its_pid))) if its_pid == pid => Some(id),
            Some((id, None)) => own().or(Some(id)),
            _ => own(),
        }
    }

    fn with_tid(&self, tid: i32, time_ns: u64) -> Option<ThreadId> {
        let ids = self.by_tid.get(&tid)?;
        let lives = |id: &&ThreadId| {
            let records = self.records(**id);
            records.is_some_and(|thread| time_ns < thread.end_ns)
        };
        ids.iter().find(lives).or(ids.last()).copied()
    }

    fn records(&self, id: ThreadId) -> Option<&ThreadRecords> {
        self.built.threads.get(id.index())
    }

    fn describe(&self, id: ThreadId) -> Thread {
        let Some(records) = self.records(id) else {
            return Thread {
                id,
                tid: 0,
                pid: None,
                name: NameId::NONE,
                process_name: NameId::NONE,
                begin_ns: 0,
                end_ns: 0,
            };
        };
        let tid = records.tid;
        let pid = self.pids.get(id.index()).copied().flatten();
        let name = match records.name {
            NameId::NONE => self.tree.thread_name(tid),
            name => name,
        };
        let process_name = pid.map_or(NameId::NONE, |pid| self.tree.process_name(pid));
        // A process that began while the trace was recorded has no entry; its main thread has a name.
        let main = || self.records(*self.by_tid.get(&pid?)?.last()?);
        let process_name = match process_name {
            NameId::NONE => main().map_or(NameId::NONE, |main| main.name),
            name => name,
        };
        Thread {
            id,
            tid,
            pid,
            name,
            process_name,
            begin_ns: records
                .records
                .first()
                .map_or(records.end_ns, |it| it.begin_ns),
            end_ns: records.end_ns,
        }
    }

    /// Returns the states of a thread in a time. The intervals follow each other without gaps, and
    /// cover the whole time.
    pub fn states(&self, id: ThreadId, range: Range<u64>) -> impl Iterator<Item = ThreadInterval> {
        let range = range.start..range.end.max(range.start);
        let thread = self.records(id);
        let records = thread.map_or(&[][..], |thread| &thread.records);
        let begin = records.partition_point(|record| record.begin_ns <= range.start);
        let end = records.partition_point(|record| record.begin_ns < range.end);
        let thread_end_ns = match (thread, records) {
            (None, _) | (_, []) => range.end,
            (Some(thread), _) => thread.end_ns,
        };
        let first = begin.saturating_sub(1)..end.max(begin);
        let known = first.map(move |index| {
            let next = records.get(index + 1);
            let end_ns = next.map_or(thread_end_ns, |next| next.begin_ns);
            (&records[index], end_ns, next)
        });
        let unknown = |begin_ns, end_ns| ThreadInterval {
            begin_ns,
            end_ns,
            state: ThreadState::Unknown { gap: None },
            syscall: None,
            wake: None,
        };
        let known_begin_ns = records.first().map_or(u64::MAX, |first| first.begin_ns);
        let before = unknown(range.start, known_begin_ns.min(range.end));
        let after = unknown(thread_end_ns.clamp(range.start, range.end), range.end);
        let known = known.map(move |(record, end_ns, next)| ThreadInterval {
            begin_ns: record.begin_ns.max(range.start),
            end_ns: end_ns.min(range.end),
            state: state_of(record),
            syscall: self.syscall_of(record),
            wake: next.and_then(wake_of),
        });
        let all = std::iter::once(before).chain(known).chain([after]);
        all.filter(|interval| interval.begin_ns < interval.end_ns)
    }

    fn syscall_of(&self, record: &StateRecord) -> Option<Syscall> {
        if record.state == State::Unknown {
            return None;
        }
        let call = self.calls.get(record.detail as usize)?;
        Some(Syscall {
            machine: self.machine,
            number: call.number,
            args: call.args,
        })
    }

    /// Returns the numbers of the cores that the trace has events of.
    pub fn cores(&self) -> impl Iterator<Item = u32> {
        let cores = (0..).zip(&self.built.cpus);
        let known = cores.filter(|(_, records)| !records.is_empty());
        known.map(|(cpu, _)| cpu)
    }

    /// Returns what a core did in a time. The intervals follow each other without gaps, and cover the
    /// whole time.
    pub fn core(&self, cpu: u32, range: Range<u64>) -> impl Iterator<Item = CpuInterval> {
        let range = range.start..range.end.max(range.start);
        let records = self.built.cpus.get(cpu as usize);
        let records = records.map_or(&[][..], Vec::as_slice);
        let begin = records.partition_point(|record| record.begin_ns <= range.start);
        let end = records.partition_point(|record| record.begin_ns < range.end);
        let known_begin_ns = records.first().map_or(u64::MAX, |first| first.begin_ns);
        let unknown = |begin_ns, end_ns| CpuInterval {
            begin_ns,
            end_ns,
            activity: CpuActivity::Unknown,
        };
        let known_end_ns = match records {
            [] => range.end,
            _ => self.built.end_ns,
        };
        let before = unknown(range.start, known_begin_ns.min(range.end));
        let after = unknown(known_end_ns.clamp(range.start, range.end), range.end);
        let first = begin.saturating_sub(1)..end.max(begin);
        let known = first.map(move |index| {
            let next = records.get(index + 1);
            let end_ns = next.map_or(known_end_ns, |next| next.begin_ns);
            CpuInterval {
                begin_ns: records[index].begin_ns.max(range.start),
                end_ns: end_ns.min(range.end),
                activity: match records[index].occupant {
                    Occupant::Thread(index) => CpuActivity::Thread(ThreadId(index)),
                    Occupant::Idle => CpuActivity::Idle,
                    Occupant::Unknown => CpuActivity::Unknown,
                },
            }
        });
        let all = std::iter::once(before).chain(known).chain([after]);
        all.filter(|interval| interval.begin_ns < interval.end_ns)
    }
}

fn state_of(record: &StateRecord) -> ThreadState {
    let cpu = (record.cpu != NO_CPU).then_some(u32::from(record.cpu));
    match record.state {
        State::Running => ThreadState::Running {
            cpu: u32::from(record.cpu),
        },
        State::Unknown | State::Off(OffCore::Invalid) => ThreadState::Unknown {
            gap: (record.detail != NONE).then_some(record.detail as usize),
        },
        State::Off(OffCore::Runnable { is_preempted }) => {
            ThreadState::Runnable { cpu, is_preempted }
        }
        State::Off(OffCore::Sleeping) => ThreadState::Sleeping,
        State::Off(OffCore::Blocked) => ThreadState::Blocked,
        State::Off(OffCore::Stopped) => ThreadState::Stopped,
        State::Off(OffCore::Traced) => ThreadState::Traced,
        State::Off(OffCore::Dead) => ThreadState::Dead,
        State::Off(OffCore::Zombie) => ThreadState::Zombie,
        State::Off(OffCore::Parked) => ThreadState::Parked,
        State::Off(OffCore::Idle) => ThreadState::Idle,
    }
}

/// Returns the wake-up that begins a state.
fn wake_of(record: &StateRecord) -> Option<Wake> {
    let waker = match record.waker {
        WokenBy::Nobody => return None,
        WokenBy::Interrupt => Waker::Interrupt,
        WokenBy::Thread(index) => Waker::Thread(ThreadId(index)),
    };
    Some(Wake {
        time_ns: record.begin_ns,
        waker,
    })
}
