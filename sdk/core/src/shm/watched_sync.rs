//! The atomics of the shared memory in fuzz targets, with `cfg(fuzzing)`.
//!
//! Before each access, an atomic calls the watcher that the fuzz target has set for the thread. So
//! the target sees each access, and can change the memory between any two accesses.
#![allow(unsafe_code)] // Turns raw addresses into atomics, as the standard library does.

use std::cell::RefCell;
use std::sync::atomic;

pub(super) use std::sync::atomic::Ordering;

/// An access to an atomic, which is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the first byte.
    pub address: usize,
    /// The number of bytes: 1, 2 or 4.
    pub size_bytes: usize,
    /// The kind of the access.
    pub kind: AccessKind,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A load.
    Load,
    /// A store of this value.
    Store(u32),
    /// A store of `next`, if the value is `seen`.
    Exchange {
        /// The value that is expected.
        seen: u32,
        /// The new value.
        next: u32,
    },
    /// Another change of the value.
    Change,
}

/// A function that is called before each access of a thread.
pub type Watcher = Box<dyn FnMut(Access)>;

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

/// Calls `watcher` before each access that this thread makes in `run`.
pub fn watch<R>(watcher: Watcher, run: impl FnOnce() -> R) -> R {
    WATCHER.set(Some(watcher));
    let result = run();
    WATCHER.set(None);
    result
}

fn call_watcher<T>(atomic: &T, kind: AccessKind) {
    WATCHER.with_borrow_mut(|watcher| {
        if let Some(watcher) = watcher {
            watcher(Access {
                address: std::ptr::from_ref(atomic).addr(),
                size_bytes: size_of::<T>(),
                kind,
            });
        }
    });
}

/// Defines a watched atomic with the given operations.
macro_rules! watched {
    ($name:ident of $integer:ident: $($operations:item)*) => {
        /// An atomic like the standard library's, which calls the watcher before each access.
        #[derive(Debug)]
        #[repr(transparent)]
        pub(super) struct $name(atomic::$name);

        impl $name {
            pub(super) fn load(&self, order: Ordering) -> $integer {
                call_watcher(self, AccessKind::Load);
                self.0.load(order)
            }

            $($operations)*
        }
    };
}

watched! { AtomicU8 of u8:
    /// # Safety
    ///
    /// The conditions are those of the standard library's method.
    pub(super) unsafe fn from_ptr<'a>(address: *mut u8) -> &'a Self {
        // SAFETY: this type is represented like the integer. The caller promises the rest: a valid
        // and aligned address, and no other kind of access.
        unsafe { &*address.cast() }
    }
}

watched! { AtomicU16 of u16:
    pub(super) fn store(&self, value: u16, order: Ordering) {
        call_watcher(self, AccessKind::Store(value.into()));
        self.0.store(value, order);
    }
}

watched! { AtomicU32 of u32:
    pub(super) const fn new(value: u32) -> Self {
        Self(atomic::AtomicU32::new(value))
    }

    /// # Safety
    ///
    /// The conditions are those of the standard library's method.
    pub(super) unsafe fn from_ptr<'a>(address: *mut u32) -> &'a Self {
        // SAFETY: this type is represented like the integer. The caller promises the rest: a valid
        // and aligned address, and no other kind of access.
        unsafe { &*address.cast() }
    }

    pub(super) fn store(&self, value: u32, order: Ordering) {
        call_watcher(self, AccessKind::Store(value));
        self.0.store(value, order);
    }

    pub(super) fn compare_exchange(
        &self,
        seen: u32,
        next: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        call_watcher(self, AccessKind::Exchange { seen, next });
        self.0.compare_exchange(seen, next, success, failure)
    }

    pub(super) fn fetch_or(&self, value: u32, order: Ordering) -> u32 {
        call_watcher(self, AccessKind::Change);
        self.0.fetch_or(value, order)
    }

    pub(super) fn fetch_max(&self, value: u32, order: Ordering) -> u32 {
        call_watcher(self, AccessKind::Change);
        self.0.fetch_max(value, order)
    }

    pub(super) fn fetch_update(
        &self,
        set_order: Ordering,
        fetch_order: Ordering,
        next: impl FnMut(u32) -> Option<u32>,
    ) -> Result<u32, u32> {
        call_watcher(self, AccessKind::Change);
        self.0.fetch_update(set_order, fetch_order, next)
    }
}
