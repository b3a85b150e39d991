//! What the C library calls when this process forks or exits.
//!
//! Here hooks are only set. What a fork means is said in `forked_child.rs`, what an exit means in
//! `consumer/file_writer.rs`.
#![allow(unsafe_code)] // The C library takes its hooks by foreign functions.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_int;

/// Has `hook` called in every child that this process forks, before `fork` returns there.
///
/// Other threads of the parent may have held any lock, so `hook` may do no more than a signal
/// handler: store to atomics. A child that is made without the C library's `fork` is not noticed.
pub(crate) fn in_forked_child(hook: extern "C" fn()) {
    // SAFETY: a function without arguments, that does not unwind since it is `extern "C"`. If this
    // code is unloaded, the C library forgets its hooks.
    let error = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
    expect_memory(error);
}

/// Has `hook` called when this process exits, by `exit` or a return from `main`; not when it aborts
/// or is killed. Other threads go on meanwhile, and may hold any lock.
pub(crate) fn at_exit(hook: extern "C" fn()) {
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
