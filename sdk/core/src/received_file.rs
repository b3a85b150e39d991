//! Files that another process has sent.
//!
//! The other process chooses the file system, and may even serve it (FUSE). So a request to the
//! file, such as closing it, may never be answered.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::own_thread;

/// A file that another process has sent. Dropping it does not wait: another thread closes the file.
#[derive(Debug)]
pub struct ReceivedFile {
    /// `None` only while this value is being dropped or converted.
    file: Option<File>,
    closing: ClosingFiles,
}

/// The number of files that are being closed.
#[derive(Clone, Debug, Default)]
pub struct ClosingFiles(Arc<AtomicUsize>);

impl ClosingFiles {
    /// Returns the number of files that threads are closing now.
    #[must_use]
    pub fn count(&self) -> usize {
        // Relaxed, like all accesses: no other memory access depends on the count.
        self.0.load(Ordering::Relaxed)
    }

    /// Returns true if a clone of this counter exists, so that files are or may be counted in it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl ReceivedFile {
    /// Takes a descriptor that has arrived. The file counts in `closing` while a thread closes it.
    #[must_use]
    pub fn new(descriptor: OwnedFd, closing: &ClosingFiles) -> Self {
        Self {
            file: Some(descriptor.into()),
            closing: closing.clone(),
        }
    }

    /// Returns the descriptor. Dropping it waits until the file is closed.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "nothing has taken the file")]
    pub fn into_descriptor(mut self) -> OwnedFd {
        self.file.take().expect("not dropped yet").into()
    }

    /// Returns the descriptor if the file is memory, which can be closed without waiting.
    ///
    /// # Errors
    ///
    /// If the file is not memory. Only memory has seals, so the request for the seals fails.
    pub fn into_memory(self) -> io::Result<OwnedFd> {
        rustix::fs::fcntl_get_seals(&*self)?;
        Ok(self.into_descriptor())
    }

    /// Returns another descriptor of the same file.
    ///
    /// # Errors
    ///
    /// If the process may not have more descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let file = Some((**self).try_clone()?);
        let closing = self.closing.clone();
        Ok(Self { file, closing })
    }
}

impl Deref for ReceivedFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("not dropped yet")
    }
}

impl Drop for ReceivedFile {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else {
            return;
        };
        if rustix::fs::fcntl_get_seals(&file).is_ok() {
            return;
        }
        let closing = self.closing.clone();
        closing.0.fetch_add(1, Ordering::Relaxed);
        // If no thread can be started, the file stays open and stays counted for ever.
        let file = ManuallyDrop::new(file);
        let close = move || {
            drop(ManuallyDrop::into_inner(file));
            closing.0.fetch_sub(1, Ordering::Relaxed);
        };
        let _ = own_thread::spawn("tracezero-close", close);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use rustix::fs::MemfdFlags;

    use super::*;

    #[test]
    fn memory_is_closed_at_once() {
        let closing = ClosingFiles::default();
        let memory = rustix::fs::memfd_create("", MemfdFlags::ALLOW_SEALING).unwrap();
        drop(ReceivedFile::new(memory, &closing));
        assert_eq!(closing.count(), 0);
        assert!(!closing.is_shared());
    }

    #[test]
    fn other_files_are_closed_by_a_thread() {
        let closing = ClosingFiles::default();
        let (mut own, other) = UnixStream::pair().unwrap();
        let file = ReceivedFile::new(other.into(), &closing);
        let another = file.try_clone().unwrap();
        drop(file);
        own.write_all(b"it is open").unwrap();
        drop(another);
        while closing.is_shared() {
            std::thread::yield_now();
        }
        assert_eq!(closing.count(), 0);
        assert!(own.write_all(b"it is closed").is_err());
    }

    #[test]
    fn only_memory_becomes_memory() {
        let closing = ClosingFiles::default();
        let memory = rustix::fs::memfd_create("", MemfdFlags::empty()).unwrap();
        assert!(ReceivedFile::new(memory, &closing).into_memory().is_ok());
        let device = File::open("/dev/zero").unwrap();
        let device = ReceivedFile::new(device.into(), &closing);
        assert!(device.into_memory().is_err());
    }
}
