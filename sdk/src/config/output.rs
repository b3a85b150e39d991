//! How the trace is flushed and written, and what describes it.

use super::TraceConfig;

/// Milliseconds between two writes into the file, unless chosen otherwise.
const DEFAULT_FILE_WRITE_PERIOD_MS: u32 = 5000;
/// The file is not written more often than each so many milliseconds.
const MIN_FILE_WRITE_PERIOD_MS: u32 = 100;
/// Milliseconds that data sources have to flush, unless chosen otherwise.
const DEFAULT_FLUSH_TIMEOUT_MS: u32 = 5000;

/// Whether data sources are asked to flush before the file is written. The numbers are those of
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

/// How the packets of a trace are compressed. A configuration is refused if this build cannot do
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
    /// What to do about it if this build cannot compress like this.
    pub(super) const fn remedy(self) -> Option<&'static str> {
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

/// The value of an attribute of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceAttributeValue {
    /// A number.
    Long(i64),
    /// A text.
    Text(String),
}

impl From<i64> for TraceAttributeValue {
    fn from(value: i64) -> Self {
        Self::Long(value)
    }
}

impl From<&str> for TraceAttributeValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// A key with a value that the trace carries along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceAttribute {
    pub(crate) key: String,
    pub(crate) value: Option<TraceAttributeValue>,
}

impl TraceConfig {
    /// Streams the trace into a file while the session goes on. Such a session cannot be read
    /// otherwise.
    #[must_use]
    pub const fn write_into_file(mut self) -> Self {
        self.write_into_file = true;
        self
    }

    /// The file to stream into, which must not exist yet. Goes with
    /// [`write_into_file`](Self::write_into_file).
    #[must_use]
    pub fn output_path(mut self, path: impl Into<String>) -> Self {
        self.output_path = Some(path.into());
        self
    }

    /// Chooses how often the file is written: at most every 100 ms; 0 for the default of 200 ms. A process
    /// that is killed loses what came since.
    #[must_use]
    pub const fn file_write_period_ms(mut self, period_ms: u32) -> Self {
        self.file_write_period_ms = period_ms;
        self
    }

    /// Ends the session before its file would reach this size; 0 for no limit.
    #[must_use]
    pub const fn max_file_size_bytes(mut self, size_bytes: u64) -> Self {
        self.max_file_size_bytes = size_bytes;
        self
    }

    /// Asks data sources to flush every `period_ms` milliseconds; 0 for never.
    #[must_use]
    pub const fn flush_period_ms(mut self, period_ms: u32) -> Self {
        self.flush_period_ms = period_ms;
        self
    }

    /// Chooses how long data sources may take to flush; 0 for the default of 5 s.
    #[must_use]
    pub const fn flush_timeout_ms(mut self, timeout_ms: u32) -> Self {
        self.flush_timeout_ms = timeout_ms;
        self
    }

    /// Chooses whether data sources are flushed before the file is written.
    #[must_use]
    pub const fn write_flush_mode(mut self, mode: WriteFlushMode) -> Self {
        self.write_flush_mode = mode;
        self
    }

    /// Waits after each write until the data has reached the disk.
    #[must_use]
    pub const fn fflush_post_write(mut self) -> Self {
        self.fflush_post_write = true;
        self
    }

    /// Chooses how packets are compressed.
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Chooses the id of the trace by its most and least significant half; random if both are 0.
    #[must_use]
    pub const fn trace_uuid(mut self, msb: i64, lsb: i64) -> Self {
        self.trace_uuid = (msb, lsb);
        self
    }

    /// Adds a key with a value that the trace carries along.
    #[must_use]
    pub fn trace_attribute(
        mut self,
        key: impl Into<String>,
        value: impl Into<TraceAttributeValue>,
    ) -> Self {
        self.trace_attributes.push(TraceAttribute {
            key: key.into(),
            value: Some(value.into()),
        });
        self
    }

    /// How good a trace is for a bug report, on Android. The trace carries it; nothing else
    /// depends on it here.
    #[must_use]
    pub const fn bugreport_score(mut self, score: i32) -> Self {
        self.bugreport_score = score;
        self
    }

    /// The file name in a bug report, on Android: letters, digits, `-`, `_` and `.`. The trace
    /// carries it; nothing else depends on it here.
    #[must_use]
    pub fn bugreport_filename(mut self, name: impl Into<String>) -> Self {
        self.bugreport_filename = Some(name.into());
        self
    }

    /// Milliseconds between two writes into the file.
    #[must_use]
    pub(crate) fn effective_file_write_period_ms(&self) -> u32 {
        match self.file_write_period_ms {
            0 => DEFAULT_FILE_WRITE_PERIOD_MS,
            period_ms => period_ms.max(MIN_FILE_WRITE_PERIOD_MS),
        }
    }

    /// Milliseconds that data sources have to flush, where a flush does not say.
    #[must_use]
    pub(crate) const fn effective_flush_timeout_ms(&self) -> u32 {
        match self.flush_timeout_ms {
            0 => DEFAULT_FLUSH_TIMEOUT_MS,
            timeout_ms => timeout_ms,
        }
    }
}
