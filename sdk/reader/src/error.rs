//! Errors that end the reading of a trace.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error that ends the reading of a trace. Damage that can be skipped is not an error, but a
/// [`Damage`](super::Damage).
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened.
    Open {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Reading from the file failed.
    Io {
        /// The number of bytes read before.
        offset: u64,
        /// The error of the source.
        source: io::Error,
    },
    /// The file is not a Perfetto trace.
    NotATrace {
        /// The kind of the file, if it is recognized.
        found: Option<FileKind>,
    },
    /// Packets are compressed in a format that this build does not support.
    NoDecompressor {
        /// The feature of this crate that supports the format.
        feature: &'static str,
        /// The offset in the file of the compressed packets.
        offset: u64,
    },
}

/// A kind of file that is sometimes mistaken for a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A trace in Chrome's JSON format.
    Json,
    /// A file compressed by gzip.
    Gzip,
    /// A file compressed by zstd as a whole.
    Zstd,
    /// A zip archive, such as several traces in one.
    Zip,
    /// An HTML page, such as Android's systrace writes.
    Html,
    /// The kernel's trace as text.
    FtraceText,
    /// A trace in the format of Fuchsia.
    Fuchsia,
    /// A recording of Linux `perf`.
    PerfData,
}

impl FileKind {
    /// Recognizes the kind of a file by its first bytes.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        let starts = [
            (&b"\x1f\x8b"[..], Self::Gzip),
            (b"\x28\xb5\x2f\xfd", Self::Zstd),
            (b"PK\x03\x04", Self::Zip),
            (b"# tracer:", Self::FtraceText),
            (b"\x10\x00\x04\x46\x78\x54\x16\x00", Self::Fuchsia),
            (b"PERFILE2", Self::PerfData),
        ];
        let binary = starts.iter().find(|(start, _)| head.starts_with(start));
        if let Some((_, kind)) = binary {
            return Some(*kind);
        }
        match head.trim_ascii_start() {
            [b'{' | b'[', ..] => Some(Self::Json),
            [b'<', ..] => Some(Self::Html),
            _ => None,
        }
    }

    /// Describes the kind, and says how to read the file.
    const fn text(self) -> &'static str {
        match self {
            Self::Json => "a JSON trace; Perfetto's `traceconv` and viewer read it",
            Self::Gzip => "compressed by gzip; unpack it first, with `gunzip`",
            Self::Zstd => "compressed by zstd; unpack it first, with `unzstd`",
            Self::Zip => "a zip archive; unpack it first, with `unzip`",
            Self::Html => "an HTML page, whose trace is the kernel's text format",
            Self::FtraceText => "a trace in the kernel's text format",
            Self::Fuchsia => "a trace in Fuchsia's format",
            Self::PerfData => "a recording of `perf`",
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => {
                write!(f, "{} cannot be opened: {source}", path.display())
            }
            Self::Io { offset, source } => {
                write!(
                    f,
                    "the trace cannot be read beyond offset {offset}: {source}"
                )
            }
            Self::NotATrace { found: Some(kind) } => {
                write!(f, "this is not a Perfetto trace, but {}", kind.text())
            }
            Self::NotATrace { found: None } => write!(f, "this is not a Perfetto trace"),
            Self::NoDecompressor { feature, offset } => write!(
                f,
                "the packets at offset {offset} are compressed; build tracezero with its feature \
                 `{feature}` to read them"
            ),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source.
            Self::Open { source, .. } | Self::Io { source, .. } => source.source(),
            _ => None,
        }
    }
}
