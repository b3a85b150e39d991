//! Newtypes for the identifiers that cross the boundary between producer and service.

/// One producer (a process, or an in-process stand-in for one) as the service numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProducerId(pub u16);

/// One writer of a producer: 1 to [`WriterId::MAX`]; 0 is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(pub u16);

impl WriterId {
    /// The largest writer id: the shared-memory ABI reserves 15 bits.
    pub const MAX: Self = Self(0x7fff);
}

/// Position of a chunk in what one writer wrote: starts at 0 and wraps at 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkId(pub u32);

impl ChunkId {
    /// The id that follows this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// A central buffer of the service, unique across its sessions: 1 to 65535; 0 is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u16);

/// One recording, as the service numbers it: from 1 on, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// One data source of one producer in one session: from 1 on, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u64);

/// One request to flush, as the service numbers it: from 1 on, across all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlushId(pub u64);
