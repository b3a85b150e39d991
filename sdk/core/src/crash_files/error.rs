//! Why crash files could not be created.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error in creating crash files.
#[derive(Debug)]
#[non_exhaustive]
pub enum CrashFilesError {
    /// The file system has no room. Make the buffers or the shared memory smaller, or name a
    /// directory with more room.
    NoSpace {
        /// The directory for crash files.
        directory: PathBuf,
        /// The size of the file that found no room.
        needed_bytes: u64,
        /// The room that is free.
        free_bytes: u64,
    },
    /// The directory is on a file system that cannot reserve room. A write to it could end the
    /// process later. Name a directory on tmpfs, ext4 or xfs.
    FileSystem {
        /// The directory for crash files.
        directory: PathBuf,
        /// The number of the file system, as `statfs` gives it.
        kind: u64,
    },
    /// Other users may change the directory. Name a directory that only this user can write to.
    NotPrivate {
        /// The directory for crash files.
        directory: PathBuf,
        /// The user that owns it.
        owner_uid: u32,
    },
    /// The process already has shared memory without crash files. Only the first session of a
    /// process chooses its memory, so let the first session ask for crash files.
    MemoryExists,
    /// The process already has crash files, in another directory.
    OtherDirectory {
        /// The directory with the crash files.
        existing: PathBuf,
    },
    /// A file could not be created or mapped.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl CrashFilesError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl fmt::Display for CrashFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace {
                directory,
                needed_bytes,
                free_bytes,
            } => write!(
                f,
                "{} has {free_bytes} bytes free, and crash files need {needed_bytes}; make the \
                 buffers smaller, or name another directory",
                directory.display()
            ),
            Self::FileSystem { directory, kind } => write!(
                f,
                "{} is on a file system (0x{kind:x}) that cannot reserve room for crash files; name a \
                 directory on tmpfs, ext4 or xfs",
                directory.display()
            ),
            Self::NotPrivate {
                directory,
                owner_uid,
            } => write!(
                f,
                "{} (owner: user {owner_uid}) can be changed by other users; name a directory for \
                 crash files that only this user can write to",
                directory.display()
            ),
            Self::MemoryExists => f.write_str(
                "this process already records without crash files; let its first session ask for \
                 them",
            ),
            Self::OtherDirectory { existing } => write!(
                f,
                "the crash files of this process are already in {}",
                existing.display()
            ),
            Self::Io { path, source } => {
                write!(
                    f,
                    "cannot create crash files in {}: {source}",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for CrashFilesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source.
            Self::Io { source, .. } => source.source(),
            _ => None,
        }
    }
}
