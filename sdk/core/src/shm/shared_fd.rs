//! Memory that processes share by a file descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

use super::memory::{Geometry, MemoryError};

/// The seals of memory that this package creates: its size never changes.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// A file of memory, which processes pass to each other. The last process that closes or unmaps it
/// frees the memory.
///
/// ```
/// use tracezero_core::shm::{Geometry, ProducerMemory, SharedFd};
///
/// // The service creates the memory, and sends a descriptor of it to the producer.
/// let created = SharedFd::create(Geometry::new(256 * 1024, 4096)?)?;
/// let sent = created.as_fd().try_clone_to_owned()?;
/// // The producer maps it.
/// let attached = SharedFd::attach(sent, 4096)?;
/// assert!(attached.keeps_its_size());
/// let memory = ProducerMemory::attach(&attached)?;
/// assert_eq!(memory.geometry().page_count(), 64);
/// # use std::os::fd::AsFd as _;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedFd {
    file: File,
    geometry: Geometry,
    keeps_its_size: bool,
}

/// An error in creating or attaching memory that processes share.
#[derive(Debug)]
#[non_exhaustive]
pub enum SharedFdError {
    /// The system refused the memory, or does not say what the descriptor is.
    Io(io::Error),
    /// The descriptor is not that of a file.
    NoFile,
    /// The size of the file or of its pages is not one of Perfetto's ABI.
    Geometry(MemoryError),
}

impl std::fmt::Display for SharedFdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the system refused the shared memory: {error}"),
            Self::NoFile => {
                f.write_str("the descriptor of the shared memory is not that of a file")
            }
            Self::Geometry(error) => write!(f, "the shared memory cannot be used: {error}"),
        }
    }
}

impl std::error::Error for SharedFdError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source.
            Self::Io(error) => error.source(),
            Self::Geometry(error) => error.source(),
            Self::NoFile => None,
        }
    }
}

impl From<rustix::io::Errno> for SharedFdError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl SharedFd {
    /// Creates zeroed memory whose size nobody can change.
    ///
    /// # Errors
    ///
    /// If the system does not provide the memory.
    pub fn create(geometry: Geometry) -> Result<Self, SharedFdError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("tracezero", flags)?;
        rustix::fs::ftruncate(&fd, geometry.size_bytes() as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS)?;
        Ok(Self {
            file: fd.into(),
            geometry,
            keeps_its_size: true,
        })
    }

    /// Takes memory that another process has created. Its pages have `page_size_bytes`.
    ///
    /// # Errors
    ///
    /// If the descriptor is not that of a file, or Perfetto's ABI does not allow the sizes.
    pub fn attach(fd: OwnedFd, page_size_bytes: usize) -> Result<Self, SharedFdError> {
        let file = File::from(fd);
        // Before the size: a size that is read without the seals may change.
        let seals = rustix::fs::fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        let metadata = file.metadata().map_err(SharedFdError::Io)?;
        if !metadata.is_file() {
            return Err(SharedFdError::NoFile);
        }
        let size_bytes = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let geometry =
            Geometry::new(size_bytes, page_size_bytes).map_err(SharedFdError::Geometry)?;
        Ok(Self {
            file,
            geometry,
            keeps_its_size: seals.contains(SealFlags::SHRINK),
        })
    }

    /// Returns the sizes of the memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns whether nobody can make the file shorter. A process that accesses memory behind the
    /// end of its file is ended by SIGBUS.
    #[must_use]
    pub fn keeps_its_size(&self) -> bool {
        self.keeps_its_size
    }

    /// Returns the file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl AsFd for SharedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(8192, 4096).unwrap()
    }

    #[test]
    fn created_memory_keeps_its_size() {
        let created = SharedFd::create(geometry()).unwrap();
        for size_bytes in [0, 4096, 1 << 20] {
            assert!(rustix::fs::ftruncate(&created, size_bytes).is_err());
        }
        assert!(rustix::fs::fcntl_add_seals(&created, SealFlags::WRITE).is_err());
    }

    #[test]
    fn memory_that_may_shrink_is_attached_and_reported() {
        let fd = rustix::fs::memfd_create("", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, 8192).unwrap();
        let attached = SharedFd::attach(fd, 4096).unwrap();
        assert!(!attached.keeps_its_size());
        assert_eq!(attached.geometry(), geometry());
    }

    #[test]
    fn sizes_that_the_abi_does_not_know_are_refused() {
        let attach = |size_bytes, page_size_bytes| {
            let fd = rustix::fs::memfd_create("", MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&fd, size_bytes).unwrap();
            SharedFd::attach(fd, page_size_bytes).map_err(|error| error.to_string())
        };
        let texts = [
            (0, 4096, "the size of 0 bytes"),
            (6000, 4096, "the size of 6000 bytes"),
            (64 << 20, 4096, "the size of 67108864 bytes"),
            (8192, 3000, "the page size of 3000 bytes"),
            (1 << 20, 1 << 20, "the page size of 1048576 bytes"),
        ];
        for (size_bytes, page_size_bytes, text) in texts {
            let error = attach(size_bytes, page_size_bytes).unwrap_err();
            let expected = format!("the shared memory cannot be used: {text}");
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(attach(32 << 20, 65536).is_ok());
    }

    #[test]
    fn a_descriptor_that_is_no_file_is_refused() {
        let device = OpenOptions::new().read(true).write(true).open("/dev/zero");
        let error = SharedFd::attach(device.unwrap().into(), 4096).unwrap_err();
        assert!(matches!(error, SharedFdError::NoFile));
    }
}
