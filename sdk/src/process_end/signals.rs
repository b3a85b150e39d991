//! SIGINT and SIGTERM: they finish recordings. Then the same signal ends the process, as its parent
//! expects.
//!
//! The handler is installed only where the signal has its default action. It notes the signal,
//! sends a request to the thread that finishes recordings, and returns. The application continues
//! while the thread finishes the recordings. The thread then restores the default action and raises
//! the signal again.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::getpid;
use rustix::time::{ClockId, clock_gettime};

use super::requests;
use tracezero_core::forked_child;
use tracezero_core::process_hooks;

/// Signals that end a process by default. People and supervisors send them to end a process.
const SIGNALS: [c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// A signal that arrives this soon after the first one counts as the same request. `timeout` sends
/// its signal both to the process and to its group, and a terminal and a parent may each send one.
const ECHO: Duration = Duration::from_millis(50);

static IS_LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// The id of the process that has the thread that finishes recordings. A child that was not made by
/// the C library's `fork` is recognized by its different id.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The signal that is to end the process; 0 if none has arrived.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// The time at which the signal in [`RECEIVED`] arrived, on the monotonic clock.
static RECEIVED_AT_NS: AtomicU64 = AtomicU64::new(0);

/// Leaves `SIGINT` and `SIGTERM` alone from now on, in the whole process. Without this call,
/// signals with their default action finish recordings before they end the process: see
/// [`Session`](crate::Session). A signal that the application handles or ignores is left alone in
/// any case.
///
/// ```
/// tracezero::leave_signals_alone();
/// let session = tracezero::InMemorySession::start()?;
/// // SIGINT now ends the process at once.
/// # drop(session);
/// # Ok::<(), tracezero::Error>(())
/// ```
pub fn leave_signals_alone() {
    // Sequentially consistent, as the loads in `install`: either the second load sees this store,
    // and `install` removes its handlers, or they were installed before `remove` looks for them.
    IS_LEFT_ALONE.store(true, Ordering::SeqCst);
    remove();
}

/// Installs the handler for signals that have their default action.
pub(super) fn install() {
    // Relaxed: the kernel orders this store before the handler, which runs in a process that is
    // forked later, or for a signal that arrives later.
    OWNER.store(own_pid(), Ordering::Relaxed);
    if IS_LEFT_ALONE.load(Ordering::SeqCst) {
        return;
    }
    for signal in SIGNALS {
        process_hooks::handle_default_signal(signal, on_signal);
    }
    if IS_LEFT_ALONE.load(Ordering::SeqCst) {
        remove();
    }
}

fn remove() {
    for signal in SIGNALS {
        if process_hooks::is_handled_by(signal, on_signal) {
            process_hooks::reset_signal(signal);
        }
    }
}

/// Returns the signal that is to end the process, if one has arrived.
pub(super) fn received() -> Option<c_int> {
    // Relaxed: `request` published it to the waiting thread, and it never changes.
    Some(RECEIVED.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Ends the process by this signal. Async-signal-safe.
pub(super) fn end_by(signal: c_int) -> ! {
    process_hooks::reset_signal(signal);
    process_hooks::raise(signal);
    // Only process 1 of a container survives the default action.
    process_hooks::exit_at_once(128 + signal)
}

/// The signal handler.
extern "C" fn on_signal(signal: c_int) {
    if !process_hooks::is_handled_by(signal, on_signal) {
        // A handler that was installed later called this one: the application shuts down in its own
        // way.
        return;
    }
    // Relaxed: see `install`.
    if forked_child::is_disabled() || OWNER.load(Ordering::Relaxed) != own_pid() {
        // The thread and the recordings belong to the parent.
        end_by(signal);
    }
    // Relaxed: the counter that `request` increments publishes both values.
    let now_ns = monotonic_ns();
    match RECEIVED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            RECEIVED_AT_NS.store(now_ns, Ordering::Relaxed);
            requests::request();
        }
        Err(_) => {
            let at_ns = RECEIVED_AT_NS.load(Ordering::Relaxed);
            // 0: another thread has received the first signal and is about to store the time.
            if at_ns != 0 && now_ns.saturating_sub(at_ns) > ECHO.as_nanos() as u64 {
                end_by(signal);
            }
        }
    }
}

fn own_pid() -> u32 {
    getpid().as_raw_pid() as u32
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
