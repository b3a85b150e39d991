//! Which of the services in this process is meant.

/// A service with a producer and memory of its own: that of the process, which all sessions are in,
/// or that of one capture of a test.
///
/// Data sources and trace points are the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Realm(u32);

impl Realm {
    /// That of the process.
    pub const PROCESS: Self = Self(0);

    /// That of a capture; each has another number, from 1 on.
    pub fn of_new_capture() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};

        static LAST: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only that each number is given once counts.
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The number of the capture; 0 for the realm of the process.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The realm with this [`number`](Self::number).
    #[must_use]
    pub const fn of_number(number: u32) -> Self {
        Self(number)
    }
}
