//! Wakes a thread that waits for descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that can be read once it was woken, until it is reset.
///
/// ```
/// let waker = tracezero_ipc::waker::Waker::new()?;
/// waker.wake();
/// waker.wake();
/// waker.reset();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Creates a waker that was not woken.
    ///
    /// # Errors
    ///
    /// If the process has too many descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Wakes the thread. Async-signal-safe.
    pub fn wake(&self) {
        // Fails only if the counter is full: then the thread is being woken.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Forgets that it was woken.
    pub fn reset(&self) {
        let mut count = [0; 8];
        // Fails only if nobody has woken it.
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
