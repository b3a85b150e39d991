//! Trace files. Only one writer at a time can write a trace into a file, over all processes.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file that nobody else can write a trace into until this is dropped. Exceptions are devices,
/// pipes, and file systems without locks: there several writers can use the same file.
#[derive(Debug)]
pub struct TraceFile(File);

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

    /// Locks the file that was opened at `path`.
    fn of(file: File, path: &Path) -> Result<Self, TryLockError> {
        if !is_regular(&file)? {
            return Ok(Self(file));
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(TryLockError::WouldBlock),
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let file = Self(file);
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
        &self.0
    }
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // Closing the file is not enough: a forked child may have it open as well. If the file was
        // not locked, unlocking it does nothing.
        let _ = self.0.unlock();
    }
}

/// Wraps a file without locking it.
#[cfg(test)]
impl From<File> for TraceFile {
    fn from(file: File) -> Self {
        Self(file)
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
