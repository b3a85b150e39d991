//! Newtypes for the identifiers that cross the boundary between producer and service.

use std::fmt;

/// The id of a producer, which the service assigns: from 1 on. A number comes again after 2^32
/// connections at the earliest. A producer is a process; in tests, a part of this process acts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProducerId(u32);

impl ProducerId {
    /// Creates the id with this number. Only the service and tests need this.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// The id of a trace writer of a producer: 1 to [`WriterId::MAX`]. 0 is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(pub u16);

impl WriterId {
    /// The largest writer id. Perfetto's shared-memory ABI has 15 bits for it.
    pub const MAX: Self = Self(0x7fff);

    /// Returns whether a writer can have this id. Chunks of another process may have any.
    #[must_use]
    pub fn is_valid(self) -> bool {
        (1..=Self::MAX.0).contains(&self.0)
    }
}

/// The position of a chunk in the sequence of one trace writer. Starts at 0 and wraps at 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkId(pub u32);

impl ChunkId {
    /// Returns the id that follows this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns true if this chunk comes behind `other` in their sequence.
    #[inline]
    #[must_use]
    pub fn is_newer_than(self, other: Self) -> bool {
        self != other && self.0.wrapping_sub(other.0) < 1 << 31
    }
}

/// The id of a trace buffer, unique among all sessions of the service: 1 to 65535. 0 is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u16);

/// The id of a tracing session, which the service assigns: from 1 on, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u64);

impl SessionId {
    /// Creates the id with this number. Only the service and tests need this.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of an instance, which is a data source of one producer in one session: from 1 on, never
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u64);

/// The id of a flush, which the service assigns: from 1 on, unique among all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlushId(pub u64);
