//! Which capture a thread writes to.
//!
//! A thread is attached to a capture by a guard; the newest guard that lives counts. What the thread
//! keeps for the other captures is set aside, so that a slice, or names that were defined, go on
//! when it comes back: a task that is polled now and then finds everything as it was.
//!
//! A thread writes to that capture and to the sessions of the process. A slice ends in the capture it began
//! in, wherever its thread is attached by then. `sdk/tests/capture/parallel.rs` and `nesting.rs` check this.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{ThreadWriters, WRITERS};
use crate::active_slots::{CAPTURE_SLOT, SLOTS_STRIDE};
use crate::application::contain;
use crate::data_source_state::DataSourceState;
use crate::instance::Instance;
use crate::realm::Realm;
use crate::registry::{self, REGISTRY};
use tracezero_core::forked_child;

thread_local! {
    /// The realm of the newest guard: that of the process stands for no capture.
    static CURRENT: Cell<Realm> = const { Cell::new(Realm::PROCESS) };
}

/// The build can capture.
pub const CAPTURES: bool = true;

/// Events that belong to no capture, while there was one.
static UNATTACHED: AtomicU64 = AtomicU64::new(0);

/// The guards of one thread, and what it keeps for captures that it is not attached to now.
pub(super) struct Attachments {
    /// The oldest first.
    guards: Vec<Guard>,
    last_guard: u64,
    set_aside: Vec<SetAside>,
}

struct Guard {
    id: u64,
    realm: Realm,
}

struct SetAside {
    realm: Realm,
    /// Its place while the thread is attached.
    index: usize,
    instance: Box<Instance>,
}

/// The thread is attached as long as this lives.
#[derive(Debug)]
#[must_use = "the thread is attached as long as this lives"]
pub struct Attached {
    /// `None` if the thread was tracing just then, or ending.
    guard: Option<u64>,
    not_send: NotSend,
}

/// Keeps a guard on its thread, which others may look at.
type NotSend = PhantomData<MutexGuard<'static, ()>>;

/// Has this thread write to the capture of `realm`, or to none if that is the process's.
pub fn attach(realm: Realm) -> Attached {
    let is_captured = CURRENT.get() != realm;
    let guard = WRITERS.try_with(|writers| {
        let mut writers = writers.try_borrow_mut().ok()?;
        let id = writers.attachments.push(realm);
        if is_captured {
            writers.switch(realm);
        }
        Some(id)
    });
    Attached {
        guard: guard.ok().flatten(),
        not_send: PhantomData,
    }
}

/// The capture that this thread writes to.
#[must_use]
pub fn current_capture() -> Option<Realm> {
    let realm = CURRENT.get();
    (realm != Realm::PROCESS).then_some(realm)
}

/// The capture that this thread writes to, if it has no writer of `data_source` there. `None` also where
/// this thread is tracing already.
pub(crate) fn capture_without_instance(data_source: &'static DataSourceState) -> Option<Realm> {
    let realm = current_capture()?;
    let index = data_source.instance_index(CAPTURE_SLOT);
    let is_missing = WRITERS.try_with(|writers| {
        let writers = writers.try_borrow().ok()?;
        Some(!matches!(writers.instances.get(index), Some(Some(_))))
    });
    is_missing.ok()??.then_some(realm)
}

/// Returns whether one of these slots is that of captures.
#[inline(always)]
const fn has_capture(slots: u32) -> bool {
    slots & 1 << CAPTURE_SLOT != 0
}

/// The capture that a slice begins in, if `slots` say that there may be one.
#[inline(always)]
#[must_use]
pub fn captured_in(slots: u32) -> Realm {
    if !has_capture(slots) {
        return Realm::PROCESS;
    }
    CURRENT.get()
}

/// Whether a slice began in another capture than that which this thread writes to, if `slots` say that
/// there may be one.
#[inline(always)]
#[must_use]
pub fn is_in_other_capture(slots: u32, capture: Realm) -> bool {
    has_capture(slots) && CURRENT.get() != capture
}

/// Counts what a thread traces, while anybody captures, that is attached to no capture.
#[cold]
pub(super) fn note_unattached() {
    // Relaxed: a count, ordered with nothing.
    UNATTACHED.fetch_add(1, Ordering::Relaxed);
}

/// A count that moves when a thread traces that is attached to no capture, while there is one.
pub fn unattached_count() -> u64 {
    // Relaxed: as in `note_unattached`.
    UNATTACHED.load(Ordering::Relaxed)
}

/// Whether this is the realm of a capture that goes on.
#[must_use]
pub fn is_capture(realm: Realm) -> bool {
    // A forked child may not ask: the capture is its parent's.
    realm != Realm::PROCESS
        && !forked_child::is_quiet()
        && REGISTRY.lock().realms.contains_key(&realm)
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Some(id) = self.guard else {
            return;
        };
        // A thread that is ending drops its writers by itself.
        let _ = WRITERS.try_with(|writers| {
            if let Ok(mut writers) = writers.try_borrow_mut() {
                writers.attachments.guards.retain(|guard| guard.id != id);
                writers.follow_guards();
            }
        });
    }
}

impl Attachments {
    pub(super) const fn new() -> Self {
        Self {
            guards: Vec::new(),
            last_guard: 0,
            set_aside: Vec::new(),
        }
    }

    fn push(&mut self, realm: Realm) -> u64 {
        self.last_guard += 1;
        let id = self.last_guard;
        self.guards.push(Guard { id, realm });
        id
    }

    /// In a forked child, leaves all as it is.
    pub(super) fn leave_to_parent(&mut self) {
        mem::forget(mem::take(self));
    }

    /// Lets go of what there is for any capture.
    pub(super) fn drop_all(&mut self) {
        for kept in self.set_aside.drain(..) {
            contain(|| drop(kept));
        }
    }
}

impl Default for Attachments {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadWriters {
    /// Attaches the thread as the newest guard says.
    fn follow_guards(&mut self) {
        let newest = self.attachments.guards.last();
        let realm = newest.map_or(Realm::PROCESS, |guard| guard.realm);
        if realm != CURRENT.get() {
            self.switch(realm);
        }
    }

    /// Sets aside what there is for one capture, and takes back what there is for another.
    fn switch(&mut self, realm: Realm) {
        self.leave_to_parent();
        let former = CURRENT.replace(realm);
        let captured = self.instances.iter_mut().enumerate();
        for (index, place) in captured.skip(CAPTURE_SLOT).step_by(SLOTS_STRIDE) {
            if let Some(instance) = place.take() {
                self.attachments.set_aside.push(SetAside {
                    realm: former,
                    index,
                    instance,
                });
            }
        }
        // Those of captures that have ended would otherwise stay until the thread traces again.
        self.drop_ended();
        for kept in self
            .attachments
            .set_aside
            .extract_if(.., |it| it.realm == realm)
        {
            self.instances[kept.index] = Some(kept.instance);
        }
    }

    /// Lets go of captures that have ended.
    pub(super) fn leave_ended_captures(&mut self) {
        self.drop_ended();
        if current_capture().is_some_and(|realm| !is_capture(realm)) {
            let has_ended = |guard: &&mut Guard| !is_capture(guard.realm);
            for guard in self.attachments.guards.iter_mut().filter(has_ended) {
                guard.realm = Realm::PROCESS;
            }
            self.follow_guards();
        }
    }

    fn drop_ended(&mut self) {
        let set_aside = &mut self.attachments.set_aside;
        let has_ended = |it: &mut SetAside| !registry::is_current(it.instance.generation);
        for ended in set_aside.extract_if(.., has_ended) {
            // Drops what the application keeps there, too.
            contain(|| drop(ended));
        }
    }
}
