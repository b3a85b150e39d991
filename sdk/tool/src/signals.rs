//! The signals that ask this command to end.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::process::Signal;
use tracezero_core::process_hooks;

/// The number of signals that have asked this command to end.
static SIGNALS: AtomicU32 = AtomicU32::new(0);
/// The number of the last of these signals.
static LAST_SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: c_int) {
    // Relaxed, here and in `Signals`: both values are polled, so a new value is seen in a later
    // poll at the latest.
    LAST_SIGNAL.store(signal, Ordering::Relaxed);
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// The signals that ask this command to end: SIGINT, SIGTERM and SIGHUP.
#[derive(Debug)]
pub(crate) struct Signals(());

impl Signals {
    /// Installs signal handlers: from now on, signals are counted, and do not end this process.
    pub(crate) fn note() -> Self {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            process_hooks::handle_default_signal(signal, note);
        }
        Self(())
    }

    /// Returns the number of signals so far.
    pub(crate) fn count(&self) -> u32 {
        SIGNALS.load(Ordering::Relaxed)
    }

    /// Returns the number of the last signal.
    pub(crate) fn number(&self) -> i32 {
        LAST_SIGNAL.load(Ordering::Relaxed)
    }

    /// Returns the last signal.
    pub(crate) fn last(&self) -> Option<Signal> {
        Signal::from_named_raw(LAST_SIGNAL.load(Ordering::Relaxed))
    }
}
