//! Why a file ends before its trace.

/// The reason why a file ends before its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// The file has reached its maximum size.
    Full,
    /// Writing to the file failed.
    Failed,
}
