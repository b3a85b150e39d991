//! What the states of threads mean to those who wonder where the time went.

use std::ops::Range;

use super::timelines::{KernelTimelines, ThreadId, ThreadInterval, ThreadState};

/// What a thread does, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// It runs.
    Running,
    /// It waits for a core.
    Runnable,
    /// It waits for a word in memory that another thread changes: for a lock, for a condition
    /// variable, or to be unparked.
    Lock,
    /// It waits inside of the kernel and takes no signals, mostly for a disk.
    Blocked,
    /// It sleeps: for a time, or until there is something to read.
    Sleeping,
    /// It is stopped, or has ended, or is a thread of the kernel without work.
    Stopped,
    /// The trace does not tell.
    Unknown,
}

/// How a time divides into activities.
///
/// ```
/// use tracezero_reader::kernel::{Activity, ActivityTimes};
///
/// let mut times = ActivityTimes::default();
/// times.add(Activity::Running, 30);
/// times.add(Activity::Lock, 10);
/// assert_eq!((times.of(Activity::Lock), times.total_ns()), (10, 40));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityTimes {
    times_ns: [u64; Activity::ALL.len()],
}

impl Activity {
    /// All activities.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Runnable,
        Self::Lock,
        Self::Blocked,
        Self::Sleeping,
        Self::Stopped,
        Self::Unknown,
    ];

    /// Returns the activity of a thread in an interval.
    #[must_use]
    pub fn of(interval: &ThreadInterval) -> Self {
        let is_lock = || {
            interval
                .syscall
                .and_then(|call| call.futex_wait())
                .is_some()
        };
        match interval.state {
            ThreadState::Running { .. } => Self::Running,
            ThreadState::Runnable { .. } => Self::Runnable,
            ThreadState::Sleeping if is_lock() => Self::Lock,
            ThreadState::Sleeping => Self::Sleeping,
            ThreadState::Blocked => Self::Blocked,
            ThreadState::Unknown { .. } => Self::Unknown,
            _ => Self::Stopped,
        }
    }
}

impl ActivityTimes {
    /// Adds a time of an activity.
    pub fn add(&mut self, activity: Activity, duration_ns: u64) {
        let time_ns = &mut self.times_ns[activity as usize];
        *time_ns = time_ns.saturating_add(duration_ns);
    }

    /// Adds all times of another instance.
    pub fn add_all(&mut self, other: &Self) {
        for activity in Activity::ALL {
            self.add(activity, other.of(activity));
        }
    }

    /// Returns the time of an activity.
    #[must_use]
    pub const fn of(&self, activity: Activity) -> u64 {
        self.times_ns[activity as usize]
    }

    /// Returns the time of all activities.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.times_ns
            .iter()
            .fold(0, |sum, time_ns| sum.saturating_add(*time_ns))
    }
}

impl KernelTimelines {
    /// Returns how a time of a thread divides into activities. They add up to the whole time.
    #[must_use]
    pub fn activities(&self, thread: ThreadId, range: Range<u64>) -> ActivityTimes {
        let mut times = ActivityTimes::default();
        for interval in self.states(thread, range) {
            times.add(Activity::of(&interval), interval.end_ns - interval.begin_ns);
        }
        times
    }
}
