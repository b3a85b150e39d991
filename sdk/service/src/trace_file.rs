//! Trace files. Only one writer at a time can write a trace into a file, over all processes.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, Write};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl};
use tracezero_core::received_file::ReceivedFile;

/// A file that nobody else can write a trace into until this is dropped. Exceptions are devices,
/// pipes, file systems without locks, and files of others: there several writers can use the same
/// file.
#[derive(Debug)]
pub struct TraceFile(Opened);

/// A file, and the one who has opened it.
#[derive(Debug)]
enum Opened {
    /// This process. It may open the file again.
    Own(File),
    /// Another process, which has passed the descriptor. This process may have rights to the file
    /// that the other one does not have, so it never opens the file again.
    Other {
        file: ReceivedFile,
        /// The offset at which the trace begins: what is before it may not be for those who get the
        /// trace. `None` before the first write.
        begin_bytes: Option<u64>,
    },
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
    /// This makes no request to the file: its file system may never answer.
    #[must_use]
    pub fn of_other_process(file: ReceivedFile) -> Self {
        let begin_bytes = None;
        Self(Opened::Other { file, begin_bytes })
    }

    /// Finds the offset at which the trace begins. Call this before the first write.
    pub(super) fn find_begin(&mut self) -> io::Result<()> {
        let Opened::Other { file, begin_bytes } = &mut self.0 else {
            return Ok(());
        };
        if begin_bytes.is_some() {
            return Ok(());
        }
        let found = if fcntl_getfl(&**file)?.contains(OFlags::APPEND) {
            file.metadata()?.len()
        } else {
            // A pipe has no position.
            (&**file).stream_position().unwrap_or(0)
        };
        *begin_bytes = Some(found);
        Ok(())
    }

    /// Returns the offset at which the trace begins.
    pub(super) fn begin_bytes(&self) -> io::Result<u64> {
        match &self.0 {
            Opened::Own(_) => Ok(0),
            Opened::Other { begin_bytes, .. } => {
                begin_bytes.ok_or_else(|| io::Error::other("nothing has been written yet"))
            }
        }
    }

    /// Returns the file for reading by offsets.
    pub(super) fn to_read(&self) -> io::Result<Self> {
        match &self.0 {
            // The file may be open for writing alone. Do not use its path, which may have changed.
            Opened::Own(file) => {
                let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
                Ok(Self::own(file))
            }
            Opened::Other { file, begin_bytes } => Ok(Self(Opened::Other {
                file: file.try_clone()?,
                begin_bytes: *begin_bytes,
            })),
        }
    }

    fn own(file: File) -> Self {
        Self(Opened::Own(file))
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
        match &self.0 {
            Opened::Own(file) => file,
            Opened::Other { file, .. } => file,
        }
    }
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&mut &**self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&mut &**self).flush()
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // Closing the file is not enough: a forked child may have it open as well. If the file was
        // not locked, unlocking it does nothing.
        if let Opened::Own(file) = &self.0 {
            let _ = file.unlock();
        }
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
