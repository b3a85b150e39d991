//! Enums of the values that fields of a configuration can have.

/// The behaviour of a full trace buffer: which packets it loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FillPolicy {
    /// Newer chunks overwrite the oldest ones.
    Ring,
    /// The buffer refuses the first chunk that does not fit and all later ones, even if the buffer
    /// is read meanwhile.
    Discard,
}

/// The producers that the service accepts. The setting applies to the whole service, and stays in
/// effect after the session. The numbers are those of Perfetto's enum `LockdownModeOperation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum LockdownMode {
    /// The producers that the service accepted before.
    #[default]
    Unchanged = 0,
    /// Producers of every user.
    Clear = 1,
    /// Only producers of the user that the service runs as.
    Set = 2,
}

/// The effect of triggers on a session. The numbers are those of the schema's enum with the same
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum TriggerMode {
    /// The session starts to record at a trigger, and ends after that trigger's `stop_delay_ms`.
    Start = 1,
    /// The session records, and ends after its first trigger and that trigger's `stop_delay_ms`.
    Stop = 2,
    /// The session records, and each trigger makes a clone of the session.
    CloneSnapshot = 4,
}

/// The writes into the file before which the service flushes the data sources. The numbers are
/// those of the schema's enum with the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum WriteFlushMode {
    /// A flush before each write, but at most one every 5 s.
    #[default]
    Auto = 1,
    /// No flush before writes. Only `flush_period_ms` causes flushes.
    Disabled = 2,
    /// A flush before each write.
    Enabled = 3,
}

/// The clock that readers of the trace show timestamps in. The numbers are those of Perfetto's enum
/// `BuiltinClock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum PrimaryTraceClock {
    /// `CLOCK_REALTIME`: the time of day, which jumps when it is set.
    Realtime = 1,
    /// `CLOCK_REALTIME_COARSE`: the time of day at the kernel's last timer tick.
    RealtimeCoarse = 2,
    /// `CLOCK_MONOTONIC`: the time since boot, not counting time in suspend.
    Monotonic = 3,
    /// `CLOCK_MONOTONIC_COARSE`: `CLOCK_MONOTONIC` at the kernel's last timer tick.
    MonotonicCoarse = 4,
    /// `CLOCK_MONOTONIC_RAW`: like `CLOCK_MONOTONIC`, but not adjusted by time synchronisation.
    MonotonicRaw = 5,
    /// `CLOCK_BOOTTIME`: the time since boot, counting time in suspend.
    Boottime = 6,
}

/// The compression of a trace's packets. If this build cannot compress in this way, the
/// configuration is refused; packets are never left uncompressed silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Compression by zlib. Needs the cargo feature `deflate`.
    Deflate,
    /// Compression by Zstandard. Needs the cargo feature `zstd`, whose build needs a C compiler.
    Zstd {
        /// The level. A higher level makes the trace smaller and takes longer. The default is 1.
        level: i32,
    },
}

impl Compression {
    /// Returns advice for the user if this build cannot compress in this way; `None` if it can.
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
