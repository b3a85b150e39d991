//! The events of which thread states are made, as they wait to be sorted.

use std::num::NonZero;

use crate::names::NameId;

/// Stands for a core that is not known.
pub(super) const NO_CPU: u16 = u16::MAX;

/// An event of the kernel. A trace has many of them, so they are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelEvent {
    /// The time on the trace clock.
    pub(super) time_ns: u64,
    pub(super) cpu: u16,
    pub(super) kind: EventKind,
}

const _: () = assert!(size_of::<KernelEvent>() == 24);

/// The kind of an event. Thread ids are those of the initial namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// The core takes up another thread. The one before is that of the switch before, or of an event
    /// of the kind [`EventKind::Ran`].
    Switch {
        /// The state of the thread before, as the kernel writes it.
        prev_state: u16,
        next: Tid,
    },
    /// A thread wakes another one.
    Waking {
        tid: Tid,
        /// The thread that ran; `None` in the compact form.
        waker: Option<Tid>,
        /// The core whose queue the thread is put into.
        target_cpu: u16,
        is_interrupt: bool,
    },
    /// The core ran this thread at this time, as no switch before has told.
    Ran(Tid),
    NewThread {
        tid: Tid,
        parent: Tid,
        /// True if the thread is of the process of its parent.
        is_thread: bool,
    },
    /// The kernel forgets a thread.
    Freed(Tid),
    Named {
        tid: Tid,
        name: NameId,
    },
    CallBegin {
        tid: Tid,
        call: CallId,
    },
    CallEnd(Tid),
}

/// A thread id. 0 is the idle thread of each core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tid(NonZero<u32>);

impl Tid {
    /// The idle thread.
    pub(super) const IDLE: Self = Self(NonZero::<u32>::MIN);

    /// Returns `None` for negative numbers, which are no ids.
    pub(super) const fn new(tid: i32) -> Option<Self> {
        if tid < 0 {
            return None;
        }
        // One more, so that an `Option` needs no room of its own.
        Some(Self(NonZero::<u32>::MIN.saturating_add(tid as u32)))
    }

    pub(super) const fn get(self) -> i32 {
        (self.0.get() - 1) as i32
    }
}

/// A system call that a thread was in when it lost its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) args: [u64; Self::ARGS],
}

impl Call {
    /// The number of arguments that are kept: those that tell what a futex waits for.
    pub(super) const ARGS: usize = 3;
}

/// The index of a [`Call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallId(pub(super) u32);
