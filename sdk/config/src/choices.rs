//! Values that fields of a configuration can have.

/// The policy of a full buffer: which packets it loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FillPolicy {
    /// Newer chunks overwrite the oldest ones.
    Ring,
    /// The first chunk that does not fit is refused, and so is every later one, read or not.
    Discard,
}

/// The producers that the service accepts. The choice holds for the whole service, also after the session.
/// The numbers are those of `LockdownModeOperation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum LockdownMode {
    /// As before.
    #[default]
    Unchanged = 0,
    /// Producers of every user.
    Clear = 1,
    /// Only producers of the user that the service runs as.
    Set = 2,
}

/// The effect of triggers on a session. The numbers are those of the enum of the same name in the
/// schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum TriggerMode {
    /// The session waits for a trigger, and ends some time after it: each trigger says how long.
    Start = 1,
    /// The session records, and ends some time after its first trigger.
    Stop = 2,
    /// The session records; each trigger asks for a clone of it.
    CloneSnapshot = 4,
}

/// The writes into the file before which data sources flush. The numbers are those of
/// the enum of the same name in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum WriteFlushMode {
    /// Before each write, but if the file is written more often than each 5 s, then each 5 s.
    #[default]
    Auto = 1,
    /// Only as the flush period says.
    Disabled = 2,
    /// Before each write.
    Enabled = 3,
}

/// A clock that readers can convert timestamps to. The numbers are those of `BuiltinClock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum PrimaryTraceClock {
    /// The time of day, which steps when it is set.
    Realtime = 1,
    /// The same, as of the last tick.
    RealtimeCoarse = 2,
    /// Time since boot, without suspend.
    Monotonic = 3,
    /// The same, as of the last tick.
    MonotonicCoarse = 4,
    /// The same, not adjusted by time synchronisation.
    MonotonicRaw = 5,
    /// Time since boot, with suspend.
    Boottime = 6,
}

/// The compression of a trace's packets. A configuration is refused if this build cannot do
/// it; no packet is left plain silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// By zlib. Needs the cargo feature `deflate`.
    Deflate,
    /// By Zstandard. Needs the cargo feature `zstd`, which is built by a C compiler.
    Zstd {
        /// The higher, the smaller and slower; 1 by default.
        level: i32,
    },
}

impl Compression {
    /// Returns the remedy if this build cannot compress like this.
    pub(crate) const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Deflate if !cfg!(feature = "deflate") => {
                Some("build tracezero with its feature `deflate`")
            }
            Self::Zstd { .. } if !cfg!(feature = "zstd") => {
                Some("build tracezero with its feature `zstd`")
            }
            _ => None,
        }
    }
}
