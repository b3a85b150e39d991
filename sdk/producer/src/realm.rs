//! Realms: the services that data sources record for.

use std::sync::atomic::{AtomicU32, Ordering};

/// The identity of a service, to which this process has one connection, with memory of its own.
///
/// Data sources and trace points are the same for all realms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Realm {
    /// The service in this process, which has all sessions of the application.
    Process,
    /// A connection to a daemon. After a reconnection, it is another realm.
    Remote(u32),
    /// The service of a test's capture.
    Capture(u32),
}

impl Realm {
    /// Creates the realm of a new capture, with a new number from 1 on.
    pub fn of_new_capture() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the numbers must only be unique.
        Self::Capture(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Creates the realm of a new connection to a daemon.
    pub fn of_new_connection() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the numbers must only be unique.
        Self::Remote(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Returns the number of the capture; 0 for all other realms.
    #[must_use]
    pub const fn capture_number(self) -> u32 {
        match self {
            Self::Capture(number) => number,
            Self::Process | Self::Remote(_) => 0,
        }
    }

    /// Returns the capture with this [number](Self::capture_number); the realm of the process for 0.
    #[must_use]
    pub const fn of_capture_number(number: u32) -> Self {
        match number {
            0 => Self::Process,
            number => Self::Capture(number),
        }
    }

    pub(crate) const fn is_capture(self) -> bool {
        matches!(self, Self::Capture(_))
    }
}
