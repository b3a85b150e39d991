//! Threads of the SDK.

use std::io;
use std::thread::{self, JoinHandle};

use crate::process_hooks;

/// Starts a thread of the SDK. The thread blocks signals, so that threads of the application get
/// them.
///
/// # Errors
///
/// If the operating system cannot start another thread.
pub fn spawn<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> io::Result<JoinHandle<R>> {
    thread::Builder::new().name(name.to_owned()).spawn(|| {
        process_hooks::block_signals();
        work()
    })
}
