//! Newtypes for the identifiers that cross the boundary between producer and service.

/// The id of a producer, which the service assigns. A producer is a process, or a stand-in for one
/// inside of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProducerId(pub u16);

/// The id of a trace writer of a producer: 1 to [`WriterId::MAX`]. 0 is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(pub u16);

impl WriterId {
    /// The largest writer id. Perfetto's shared-memory ABI has 15 bits for it.
    pub const MAX: Self = Self(0x7fff);
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
}

/// The id of a trace buffer, unique among all sessions of the service: 1 to 65535. 0 is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u16);

/// The id of a tracing session, which the service assigns: from 1 on, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// The id of an instance, which is a data source of one producer in one session: from 1 on, never
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u64);

/// The id of a flush, which the service assigns: from 1 on, unique among all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlushId(pub u64);
