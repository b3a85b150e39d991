//! Hooks: functions that the C library or the kernel calls when this process forks, exits or gets a
//! signal.
//!
//! This module only sets hooks. `forked_child.rs` has the hook for forks. `process_end/` of the
//! package `tracezero` has the hooks for the exit and for signals.
#![allow(unsafe_code)] // Hooks are set by foreign functions.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_int;
use std::mem;
use std::ptr;

/// A signal handler. It may only do what is async-signal-safe.
pub type SignalHandler = extern "C" fn(c_int);

/// Sets a hook that runs in every child that this process forks, before `fork` returns there.
///
/// At the time of the fork, other threads of the parent may hold any lock. So `hook` may do no more
/// than a signal handler: store to atomics. A child that is made without the C library's `fork`
/// does not run `hook`.
pub fn in_forked_child(hook: extern "C" fn()) {
    // SAFETY: the hook has no arguments, and does not unwind since it is `extern "C"`. If this code
    // is unloaded, the C library removes its hooks.
    let error = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
    expect_memory(error);
}

/// Sets a hook that runs when this process exits, by `exit` or a return from `main`. It does not
/// run when the process aborts or is killed. Other threads go on while the hook runs, and may hold
/// any lock.
pub fn at_exit(hook: extern "C" fn()) {
    // SAFETY: as in `in_forked_child`. If this code is unloaded, the C library calls the hook
    // before that.
    let error = unsafe { libc::atexit(hook) };
    expect_memory(error);
}

/// Handles the only possible error of setting a hook, lack of memory, like any other lack of
/// memory.
fn expect_memory(error: c_int) {
    if error != 0 {
        handle_alloc_error(Layout::new::<extern "C" fn()>());
    }
}

/// Installs `handler` for `signal` if the signal has its default action.
pub fn handle_default_signal(signal: c_int, handler: SignalHandler) {
    if action(signal).sa_sigaction == libc::SIG_DFL {
        // `SA_ONSTACK`: use the thread's alternative stack if it has one, because threads of other
        // languages may have small stacks. `SA_RESTART`: interrupted system calls go on.
        set_action(
            signal,
            handler as usize,
            libc::SA_ONSTACK | libc::SA_RESTART,
        );
    }
}

/// Returns whether `handler` is the handler of `signal`. Async-signal-safe.
pub fn is_handled_by(signal: c_int, handler: SignalHandler) -> bool {
    action(signal).sa_sigaction == handler as usize
}

/// Restores the default action of `signal`. Async-signal-safe.
pub fn reset_signal(signal: c_int) {
    set_action(signal, libc::SIG_DFL, 0);
}

/// Sends `signal` to this thread, and unblocks it, so that it arrives at once. Async-signal-safe.
pub fn raise(signal: c_int) {
    let mut only_this = empty_set();
    // SAFETY: the set was initialized; the numbers are those of signals.
    unsafe { libc::sigaddset(&raw mut only_this, signal) };
    // SAFETY: no memory is involved.
    unsafe { libc::raise(signal) };
    // If the signal was blocked, as it is in its own handler, it arrives now.
    // SAFETY: the set is initialized; nothing is written to a null pointer.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only_this, ptr::null_mut()) };
}

/// Ends the process without running the hooks for the exit. Async-signal-safe.
pub fn exit_at_once(code: c_int) -> ! {
    // SAFETY: no memory is involved, and nothing of this process runs afterwards.
    unsafe { libc::_exit(code) }
}

/// The signals that threads of the SDK do not block. Most of them report a fault of the thread
/// itself; if such a signal were blocked, the kernel would kill the process. `SIGPROF` is sent by
/// profilers to each thread.
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

/// Blocks signals in this thread, so that threads of the application get them. Also blocks
/// `SIGXFSZ`, so that a write beyond the limit of file sizes is an error and does not end the
/// process.
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
    // SAFETY: a set of signals is a plain array of bits. All zeros are the empty set.
    unsafe { mem::zeroed() }
}

fn no_action() -> libc::sigaction {
    // SAFETY: a plain structure. All zeros are valid: the default action without flags.
    unsafe { mem::zeroed() }
}

/// Returns the present action of `signal`. Async-signal-safe.
fn action(signal: c_int) -> libc::sigaction {
    let mut action = no_action();
    // SAFETY: `action` may be written; nothing is read from a null pointer. If the number is not a
    // signal, the call fails and leaves the default action in `action`.
    unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    action
}

fn set_action(signal: c_int, handler: usize, flags: c_int) {
    let mut action = no_action();
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is initialized. Its handler is the default, or a function of the type that
    // its flags require. Nothing is written to a null pointer.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}
