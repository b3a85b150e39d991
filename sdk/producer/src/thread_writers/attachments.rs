//! The capture that a thread writes to.
//!
//! A guard attaches a thread to a capture; the newest living guard decides. The thread's writers
//! and states for other captures are stored, and used again when the thread comes back. So slices
//! go on and names stay defined, for example in a task that is polled now and then.
//!
//! A thread writes to its capture and to all sessions of the process. A slice ends in the capture
//! in which it began, even if its thread is attached to another one by then.
//! `sdk/tests/capture/parallel.rs` and `nesting.rs` check this.

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
    /// The realm of the newest guard. The realm of the process means: no capture.
    static CURRENT: Cell<Realm> = const { Cell::new(Realm::Process) };
}

/// True in builds that can capture.
pub const CAPTURES: bool = true;

/// The number of events on threads that were attached to no capture, while a capture existed.
static UNATTACHED: AtomicU64 = AtomicU64::new(0);

/// A thread's guards, and its instances of captures that it is not attached to now.
pub(super) struct Attachments {
    /// Sorted by age, the oldest first.
    guards: Vec<Guard>,
    last_guard: u64,
    stored: Vec<StoredInstance>,
}

struct Guard {
    id: u64,
    realm: Realm,
}

struct StoredInstance {
    realm: Realm,
    /// Its index in the thread's table while the thread is attached.
    index: usize,
    instance: Box<Instance>,
}

/// A guard: the thread is attached as long as it lives.
#[derive(Debug)]
#[must_use = "the thread is detached when this is dropped; bind it"]
pub struct Attached {
    /// `None` if the thread was in a trace point at the time, or ending.
    guard: Option<u64>,
    not_send: NotSend,
}

/// Makes the guard `!Send`, but keeps it `Sync`.
type NotSend = PhantomData<MutexGuard<'static, ()>>;

/// Attaches this thread to the capture of `realm`, or to none if that is another realm.
pub fn attach(realm: Realm) -> Attached {
    let realm = Realm::of_capture_number(realm.capture_number());
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

/// Returns the capture that this thread writes to.
#[must_use]
pub fn current_capture() -> Option<Realm> {
    let realm = CURRENT.get();
    realm.is_capture().then_some(realm)
}

/// Returns the capture that this thread writes to, if the thread has no writer of `data_source` for
/// that capture. Also returns `None` inside of a trace point.
pub(crate) fn capture_without_instance(data_source: &'static DataSourceState) -> Option<Realm> {
    let realm = current_capture()?;
    let index = data_source.instance_index(CAPTURE_SLOT);
    let is_missing = WRITERS.try_with(|writers| {
        let writers = writers.try_borrow().ok()?;
        Some(!matches!(writers.instances.get(index), Some(Some(_))))
    });
    is_missing.ok()??.then_some(realm)
}

/// Returns true if `slots` contains the slot of captures.
#[inline(always)]
const fn has_capture(slots: u32) -> bool {
    slots & 1 << CAPTURE_SLOT != 0
}

/// Returns the capture in which a slice begins, if `slots` contains the slot of captures; else
/// [`Realm::Process`].
#[inline(always)]
#[must_use]
pub fn captured_in(slots: u32) -> Realm {
    if !has_capture(slots) {
        return Realm::Process;
    }
    CURRENT.get()
}

/// Returns true if a slice began in another capture than the one that this thread writes to now,
/// and `slots` contains the slot of captures.
#[inline(always)]
#[must_use]
pub fn is_in_other_capture(slots: u32, capture: Realm) -> bool {
    has_capture(slots) && CURRENT.get() != capture
}

/// Counts an event on a thread that is attached to no capture, while a capture exists.
#[cold]
pub(super) fn note_unattached() {
    // Relaxed: this is only a count, and orders no other memory.
    UNATTACHED.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of events on threads that were attached to no capture, while a capture
/// existed.
pub fn unattached_count() -> u64 {
    // Relaxed: as in `note_unattached`.
    UNATTACHED.load(Ordering::Relaxed)
}

/// Returns true if `realm` is a capture that still runs.
#[must_use]
pub fn is_capture(realm: Realm) -> bool {
    // Not asked in a forked child: the capture belongs to the parent.
    realm.is_capture()
        && !forked_child::is_disabled()
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
            stored: Vec::new(),
        }
    }

    fn push(&mut self, realm: Realm) -> u64 {
        self.last_guard += 1;
        let id = self.last_guard;
        self.guards.push(Guard { id, realm });
        id
    }

    /// In a forked child, forgets everything without dropping it.
    pub(super) fn leave_to_parent(&mut self) {
        mem::forget(mem::take(self));
    }

    /// Drops the instances of all captures.
    pub(super) fn drop_all(&mut self) {
        for kept in self.stored.drain(..) {
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
    /// Attaches the thread to the realm of the newest guard.
    fn follow_guards(&mut self) {
        let newest = self.attachments.guards.last();
        let realm = newest.map_or(Realm::Process, |guard| guard.realm);
        if realm != CURRENT.get() {
            self.switch(realm);
        }
    }

    /// Stores the instances of the current capture, and brings back those of `realm`.
    fn switch(&mut self, realm: Realm) {
        self.leave_to_parent();
        let former = CURRENT.replace(realm);
        let captured = self.instances.iter_mut().enumerate();
        for (index, place) in captured.skip(CAPTURE_SLOT).step_by(SLOTS_STRIDE) {
            if let Some(instance) = place.take() {
                self.attachments.stored.push(StoredInstance {
                    realm: former,
                    index,
                    instance,
                });
            }
        }
        // Drop ended captures now. Otherwise, their instances would stay until the thread traces
        // again.
        self.drop_ended();
        for kept in self
            .attachments
            .stored
            .extract_if(.., |it| it.realm == realm)
        {
            self.instances[kept.index] = Some(kept.instance);
        }
    }

    /// Drops the instances of captures that have ended, and detaches the thread from them.
    pub(super) fn leave_ended_captures(&mut self) {
        self.drop_ended();
        if current_capture().is_some_and(|realm| !is_capture(realm)) {
            let has_ended = |guard: &&mut Guard| !is_capture(guard.realm);
            for guard in self.attachments.guards.iter_mut().filter(has_ended) {
                guard.realm = Realm::Process;
            }
            self.follow_guards();
        }
    }

    fn drop_ended(&mut self) {
        let stored = &mut self.attachments.stored;
        let has_ended = |it: &mut StoredInstance| !registry::is_current(it.instance.generation);
        for ended in stored.extract_if(.., has_ended) {
            // This also drops the application's thread state.
            contain(|| drop(ended));
        }
    }
}
