//! Threads of the SDK.

use std::io;
use std::thread::{self, JoinHandle};

use crate::process_hooks;

/// Starts a thread of this name that gets no signals: they are for threads of the application.
///
/// # Errors
///
/// If the operating system has no thread left.
pub fn spawn<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> io::Result<JoinHandle<R>> {
    thread::Builder::new().name(name.to_owned()).spawn(|| {
        process_hooks::block_signals();
        work()
    })
}
