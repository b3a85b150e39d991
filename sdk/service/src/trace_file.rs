//! Trace files. Only one writer at a time can write a trace into a file, over all processes.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, Write};
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl};

/// A file that nobody else can write a trace into until this is dropped. Exceptions are devices,
/// pipes, file systems without locks, and files of others: there several writers can use the same
/// file.
#[derive(Debug)]
pub struct TraceFile {
    file: File,
    owner: Owner,
}

/// The one who has opened a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// This process. It may open the file again.
    Own,
    /// Another process, which has passed the descriptor. This process may have rights to the file
    /// that the other one does not have, so it never opens the file again. The trace begins at this
    /// offset: what is before it may not be for those who get the trace.
    Other { begin_bytes: u64 },
}

impl TraceFile {
    /// Opens the file at `path` for a new trace. The file is created, or emptied if it exists.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError::WouldBlock`] if another writer writes a trace into the file. The
    /// file is then not changed.
    pub fn create(path: &Path) -> Result<Self, TryLockError> {
        // Empty the file only after it is locked.
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        let file = Self::of(options.open(path).map_err(TryLockError::Error)?, path)?;
        if is_regular(&file)? {
            file.set_len(0).map_err(TryLockError::Error)?;
        }
        Ok(file)
    }

    /// Creates the file at `path`, which must not exist yet.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TraceFile::create`].
    pub fn create_new(path: &Path) -> Result<Self, TryLockError> {
        Self::of(File::create_new(path).map_err(TryLockError::Error)?, path)
    }

    /// Locks the file at `path` until it is replaced. Returns `None` if it does not exist or cannot
    /// be read.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError::WouldBlock`] if another writer writes a trace into it.
    pub fn to_replace(path: &Path) -> Result<Option<Self>, TryLockError> {
        match File::open(path) {
            Ok(file) => Self::of(file, path).map(Some),
            // A file that cannot be read may be replaced nevertheless.
            Err(_) => Ok(None),
        }
    }

    /// Takes a file that another process has opened. The trace begins at the file's position, or at
    /// its end if the file was opened for appending. The file is not locked.
    ///
    /// A clone of the session begins with the contents of its file. That needs a descriptor that can
    /// also be read.
    ///
    /// # Errors
    ///
    /// If the system does not tell the flags or the size of the file.
    pub fn of_other_process(descriptor: OwnedFd) -> io::Result<Self> {
        let mut file = File::from(descriptor);
        let begin_bytes = if fcntl_getfl(&file)?.contains(OFlags::APPEND) {
            file.metadata()?.len()
        } else {
            // A pipe has no position.
            file.stream_position().unwrap_or(0)
        };
        let owner = Owner::Other { begin_bytes };
        Ok(Self { file, owner })
    }

    /// Returns the offset at which the trace begins.
    pub(super) fn begin_bytes(&self) -> u64 {
        match self.owner {
            Owner::Own => 0,
            Owner::Other { begin_bytes } => begin_bytes,
        }
    }

    /// Returns the file for reading by offsets.
    pub(super) fn to_read(&self) -> io::Result<File> {
        match self.owner {
            // The file may be open for writing alone. Do not use its path, which may have changed.
            Owner::Own => File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())),
            Owner::Other { .. } => self.file.try_clone(),
        }
    }

    fn own(file: File) -> Self {
        let owner = Owner::Own;
        Self { file, owner }
    }

    /// Locks the file that was opened at `path`.
    fn of(file: File, path: &Path) -> Result<Self, TryLockError> {
        if !is_regular(&file)? {
            return Ok(Self::own(file));
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(TryLockError::WouldBlock),
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let file = Self::own(file);
        // The writer that had the lock may have completed the file and renamed it.
        match is_at(&file, path) {
            true => Ok(file),
            false => Err(TryLockError::WouldBlock),
        }
    }
}

fn is_regular(file: &File) -> Result<bool, TryLockError> {
    let metadata = file.metadata().map_err(TryLockError::Error)?;
    Ok(metadata.is_file())
}

/// Returns true if `path` leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(there)) => id(own) == id(there),
        _ => false,
    }
}

impl Deref for TraceFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // Closing the file is not enough: a forked child may have it open as well. If the file was
        // not locked, unlocking it does nothing.
        let _ = self.file.unlock();
    }
}

/// Wraps a file without locking it.
#[cfg(test)]
impl From<File> for TraceFile {
    fn from(file: File) -> Self {
        Self::own(file)
    }
}

#[cfg(test)]
mod tests {
    use support::Folder;

    use super::*;

    #[test]
    fn a_file_is_free_again_although_a_forked_child_has_it_open() {
        let folder = Folder::empty();
        let path = folder.file("forked");
        let file = TraceFile::create(&path).expect("a file");
        // A forked child inherits this: the same open file.
        let of_child = file.try_clone().expect("a copy");
        assert!(matches!(
            TraceFile::create(&path),
            Err(TryLockError::WouldBlock)
        ));
        drop(file);
        TraceFile::create(&path).expect("nobody writes it");
        drop(of_child);
    }

    #[test]
    fn a_file_that_got_another_name_meanwhile_is_left_alone() {
        let folder = Folder::empty();
        let (path, complete) = (folder.file("partial"), folder.file("complete"));
        fs::write(&path, "of somebody else").expect("written");
        let opened = File::options().write(true).open(&path).expect("a file");
        fs::rename(&path, &complete).expect("renamed");
        assert!(matches!(
            TraceFile::of(opened, &path),
            Err(TryLockError::WouldBlock)
        ));
    }
}
