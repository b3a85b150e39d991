//! Realms: the services in this process.

/// The identity of a service in this process, which has its own producer and memory. The realm of
/// the process has all sessions. Each capture of a test has its own realm.
///
/// Data sources and trace points are the same for all realms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Realm(u32);

impl Realm {
    /// The realm of the process.
    pub const PROCESS: Self = Self(0);

    /// Creates the realm of a new capture, with a new number from 1 on.
    pub fn of_new_capture() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};

        static LAST: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the numbers must only be unique.
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Returns the number of the capture; 0 for the realm of the process.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the realm with this [`number`](Self::number).
    #[must_use]
    pub const fn of_number(number: u32) -> Self {
        Self(number)
    }
}
