//! Functions that the C library or the kernel calls when this process forks, exits or gets a signal.
//!
//! This module only sets them. `forked_child.rs` says what a fork means, `process_end/` what an exit
//! and a signal mean.
#![allow(unsafe_code)] // The C library takes its hooks by foreign functions.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_int;
use std::mem;
use std::ptr;

/// A signal handler. It may only do what is async-signal-safe.
pub type SignalHandler = extern "C" fn(c_int);

/// Calls `hook` in every child that this process forks, before `fork` returns there.
///
/// Other threads of the parent may have held any lock, so `hook` may do no more than a signal
/// handler: store to atomics. A child that is made without the C library's `fork` is not noticed.
pub fn in_forked_child(hook: extern "C" fn()) {
    // SAFETY: a function without arguments, that does not unwind since it is `extern "C"`. If this
    // code is unloaded, the C library forgets its hooks.
    let error = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
    expect_memory(error);
}

/// Calls `hook` when this process exits, by `exit` or a return from `main`; not when it aborts
/// or is killed. Other threads go on meanwhile, and may hold any lock.
pub fn at_exit(hook: extern "C" fn()) {
    // SAFETY: as in `in_forked_child`; if this code is unloaded, the hook is called before.
    let error = unsafe { libc::atexit(hook) };
    expect_memory(error);
}

/// The one error there is: no memory for the hook. It is treated like any other lack of memory.
fn expect_memory(error: c_int) {
    if error != 0 {
        handle_alloc_error(Layout::new::<extern "C" fn()>());
    }
}

/// Installs `handler` for `signal` if the signal has its default action.
pub fn handle_default_signal(signal: c_int, handler: SignalHandler) {
    if action(signal).sa_sigaction == libc::SIG_DFL {
        // The thread's alternative stack, where it has one: threads of other languages may have
        // small stacks. System calls that the signal interrupts go on.
        set_action(
            signal,
            handler as usize,
            libc::SA_ONSTACK | libc::SA_RESTART,
        );
    }
}

/// Returns whether `handler` is what the kernel calls for `signal`. Async-signal-safe.
pub fn is_handled_by(signal: c_int, handler: SignalHandler) -> bool {
    action(signal).sa_sigaction == handler as usize
}

/// Restores the default action of `signal`. Async-signal-safe.
pub fn reset_signal(signal: c_int) {
    set_action(signal, libc::SIG_DFL, 0);
}

/// Sends `signal` to this thread, and lets it in. Async-signal-safe.
pub fn raise(signal: c_int) {
    let mut only_this = empty_set();
    // SAFETY: the set was initialized; the numbers are those of signals.
    unsafe { libc::sigaddset(&raw mut only_this, signal) };
    // SAFETY: no memory is involved.
    unsafe { libc::raise(signal) };
    // If it was blocked, as in its own handler, it arrives now.
    // SAFETY: the set is initialized; nothing is written to a null pointer.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only_this, ptr::null_mut()) };
}

/// Ends the process without calling what is to be called at the exit. Async-signal-safe.
pub fn exit_at_once(code: c_int) -> ! {
    // SAFETY: no memory is involved, and nothing of this process runs afterwards.
    unsafe { libc::_exit(code) }
}

/// Signals that stay open in threads of the SDK: those that tell of a fault in the thread itself, which
/// the kernel would turn into a kill, and those that profilers send to each thread.
const OPEN_SIGNALS: [c_int; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPROF,
];

/// Blocks signals in this thread, so that they reach a thread of the application. Blocks `SIGXFSZ`
/// as well: a write beyond the limit of file sizes is an error then, and does not end the process.
pub fn block_signals() {
    let mut blocked = empty_set();
    // SAFETY: the set may be written.
    unsafe { libc::sigfillset(&raw mut blocked) };
    for signal in OPEN_SIGNALS {
        // SAFETY: the set was initialized; the number is that of a signal.
        unsafe { libc::sigdelset(&raw mut blocked, signal) };
    }
    // SAFETY: the set is initialized; nothing is written to a null pointer.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, ptr::null_mut()) };
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: a set of signals is a plain array of bits, and zeros are the empty one.
    unsafe { mem::zeroed() }
}

fn no_action() -> libc::sigaction {
    // SAFETY: a plain structure, for which zeros are valid: the default action without flags.
    unsafe { mem::zeroed() }
}

fn action(signal: c_int) -> libc::sigaction {
    let mut action = no_action();
    // SAFETY: `action` may be written; nothing is read from a null pointer. An error, for a number
    // that is no signal, leaves the default action there.
    unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    action
}

fn set_action(signal: c_int, handler: usize, flags: c_int) {
    let mut action = no_action();
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is initialized, and its handler a function of the type that goes with its
    // flags, or the default; nothing is written to a null pointer.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}
