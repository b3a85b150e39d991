//! SIGINT and SIGTERM: recordings are finished, then the process ends by that very signal, as its
//! parent expects.
//!
//! The handler is installed only in place of the default action. It does no work: it notes the signal,
//! asks the thread that finishes, and returns; the application goes on for these milliseconds. The
//! thread then restores the default action and raises the signal again.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::getpid;
use rustix::time::{ClockId, clock_gettime};

use super::asking;
use tracezero_core::forked_child;
use tracezero_core::process_hooks;

/// Signals that end a process by default, and that people and supervisors send to end one.
const SIGNALS: [c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// A signal that comes this soon after the first one is the same request, sent twice: `timeout` sends
/// its signal to the process and to its group, and a terminal and a parent may both send one.
const ECHO: Duration = Duration::from_millis(50);

static IS_LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// The process that has the thread which finishes. A child that was made without the C library's
/// `fork` has another id.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The signal that the process is to end by; 0 if none came.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// When it came, on the monotonic clock.
static RECEIVED_AT_NS: AtomicU64 = AtomicU64::new(0);

/// Leaves `SIGINT` and `SIGTERM` to the application, from now on and in the whole process. Without
/// this call, and if they have their default action, they finish recordings before they end the
/// process: see [`Session`](crate::Session). A signal that the application handles or ignores is left
/// alone in any case.
///
/// ```
/// tracezero::leave_signals_alone();
/// let session = tracezero::InMemorySession::start()?;
/// // SIGINT now ends the process at once.
/// # drop(session);
/// # Ok::<(), tracezero::Error>(())
/// ```
pub fn leave_signals_alone() {
    // Sequentially consistent, as the load in `install`: that one does not install a handler after
    // this one has looked for it.
    IS_LEFT_ALONE.store(true, Ordering::SeqCst);
    remove();
}

/// Installs the handler where the default action is.
pub(super) fn install() {
    // Relaxed: the handler reads it in a process that was forked later, or on a signal that comes
    // later, by way of the kernel.
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

/// The signal that the process is to end by.
pub(super) fn received() -> Option<c_int> {
    // Relaxed: `notify` published it to whoever waited, and it never changes.
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
        // Called by a handler that was installed later: the application shuts down in its own way.
        return;
    }
    // Relaxed: see `install`.
    if forked_child::is_quiet() || OWNER.load(Ordering::Relaxed) != own_pid() {
        // The thread and the recordings are the parent's.
        end_by(signal);
    }
    // Relaxed: the count that `notify` raises publishes both.
    let now_ns = monotonic_ns();
    match RECEIVED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            RECEIVED_AT_NS.store(now_ns, Ordering::Relaxed);
            asking::notify();
        }
        Err(_) => {
            let at_ns = RECEIVED_AT_NS.load(Ordering::Relaxed);
            // 0: another thread is just noting the first one.
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
