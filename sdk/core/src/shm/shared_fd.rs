//! Memory that processes share by a file descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

use super::memory::{Geometry, MemoryError};
use crate::received_file::ReceivedFile;

/// The seals of memory that this package creates: its size never changes.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// The number by which the system identifies tmpfs.
const TMPFS_MAGIC: u32 = 0x0102_1994;

/// Returns the names of these seals, of those that [`SEALS`] has.
fn names(seals: SealFlags) -> String {
    let names = [
        (SealFlags::SHRINK, "F_SEAL_SHRINK"),
        (SealFlags::GROW, "F_SEAL_GROW"),
        (SealFlags::SEAL, "F_SEAL_SEAL"),
    ];
    let names = names.into_iter().filter(|(seal, _)| seals.contains(*seal));
    names.map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

/// Checks the number of a file system.
fn check_file_system(magic: u32) -> Result<(), SharedFdError> {
    match magic {
        TMPFS_MAGIC => Ok(()),
        _ => Err(SharedFdError::FileSystem { magic }),
    }
}

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
    /// The descriptor cannot have seals, so it is not that of a memfd. The system's error says so.
    NoSeals(io::Error),
    /// The memory may change its size, because it lacks these seals.
    Unsealed {
        /// The names of the seals.
        missing: String,
    },
    /// The memory is on another file system than tmpfs.
    FileSystem {
        /// The magic number of the file system.
        magic: u32,
    },
    /// The descriptor is not that of a file.
    NoFile,
    /// The size of the file or of its pages is not one of Perfetto's ABI.
    Geometry(MemoryError),
    /// The system refused the mapping.
    Map(MemoryError),
}

impl std::fmt::Display for SharedFdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the system refused the shared memory: {error}"),
            Self::NoFile => {
                f.write_str("the descriptor of the shared memory is not that of a file")
            }
            Self::NoSeals(error) => write!(
                f,
                "the descriptor of the shared memory is not that of a memfd, which can have seals: \
                 {error}"
            ),
            Self::Unsealed { missing } => {
                write!(f, "the shared memory lacks the seals {missing}")
            }
            Self::FileSystem { magic } => write!(
                f,
                "the shared memory is on a file system with the number {magic:#010x}, not on tmpfs"
            ),
            Self::Geometry(error) => write!(f, "the shared memory cannot be used: {error}"),
            Self::Map(error) => write!(f, "the shared memory cannot be mapped: {error}"),
        }
    }
}

impl std::error::Error for SharedFdError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` already prints the text of the wrapped error, so the source is the error
            // behind that one.
            Self::Io(error) | Self::NoSeals(error) => error.source(),
            Self::Geometry(error) | Self::Map(error) => error.source(),
            Self::Unsealed { .. } | Self::FileSystem { .. } | Self::NoFile => None,
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
        // Reads the seals before the size: a size that is read before the memory is sealed may
        // still change.
        let seals = rustix::fs::fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        Self::of_file(file, page_size_bytes, seals)
    }

    /// Takes memory that a process which is not trusted has created, if no access to it can end in
    /// SIGBUS. Its pages have `page_size_bytes`.
    ///
    /// The seals keep the size as it is, and only files of memory can have them. Pages of another
    /// file system might be missing when they are accessed: those of hugetlbfs, which also has seals,
    /// come from a limited supply.
    ///
    /// # Errors
    ///
    /// If the memory lacks a seal, is not on tmpfs or is no file, or if Perfetto's ABI does not allow
    /// the sizes.
    pub(super) fn adopt(
        received: ReceivedFile,
        page_size_bytes: usize,
    ) -> Result<Self, SharedFdError> {
        // Refuses a file that is not memory before it sends a request to the file's file system,
        // which may never answer.
        let file = File::from(received.into_memory().map_err(SharedFdError::NoSeals)?);
        // Reads the seals before the size, as `attach` does.
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        if !seals.contains(SEALS) {
            return Err(SharedFdError::Unsealed {
                missing: names(SEALS.difference(seals)),
            });
        }
        // The magic number of a file system has 32 bits, although its type may have more.
        check_file_system(rustix::fs::fstatfs(&file)?.f_type as u32)?;
        Self::of_file(file, page_size_bytes, seals)
    }

    /// Checks the size of a file, whose seals were read before.
    fn of_file(
        file: File,
        page_size_bytes: usize,
        seals: SealFlags,
    ) -> Result<Self, SharedFdError> {
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
    use std::os::fd::AsRawFd as _;

    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::received_file::ClosingFiles;

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

    /// Creates a memfd of this size with these seals.
    fn memfd(flags: MemfdFlags, size_bytes: u64, seals: SealFlags) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags;
        let fd = rustix::fs::memfd_create("", flags).unwrap();
        rustix::fs::ftruncate(&fd, size_bytes).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        fd
    }

    fn received(fd: OwnedFd) -> ReceivedFile {
        ReceivedFile::new(fd, &ClosingFiles::default())
    }

    fn sealed(size_bytes: u64) -> OwnedFd {
        memfd(MemfdFlags::empty(), size_bytes, SEALS)
    }

    /// Returns the text of the refusal, also if the mapping is refused.
    fn refusal(fd: OwnedFd, page_size_bytes: usize) -> String {
        let adopted = crate::shm::ForeignMemory::adopt(received(fd), page_size_bytes);
        adopted.unwrap_err().to_string()
    }

    #[test]
    fn sealed_memory_of_every_size_of_the_abi_is_adopted() {
        for (size_bytes, page_size_bytes) in
            [(4096, 4096), (256 << 10, 32 << 10), (32 << 20, 64 << 10)]
        {
            let adopted = SharedFd::adopt(received(sealed(size_bytes)), page_size_bytes).unwrap();
            assert!(adopted.keeps_its_size());
            assert_eq!(adopted.geometry().size_bytes() as u64, size_bytes);
            assert_eq!(adopted.geometry().page_size_bytes(), page_size_bytes);
        }
    }

    #[test]
    fn memory_without_all_seals_is_not_adopted() {
        let (shrink, grow) = (SealFlags::SHRINK, SealFlags::GROW);
        let texts = [
            (
                SealFlags::empty(),
                "F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL",
            ),
            (shrink, "F_SEAL_GROW, F_SEAL_SEAL"),
            (shrink | grow, "F_SEAL_SEAL"),
            (shrink | SealFlags::SEAL, "F_SEAL_GROW"),
            (grow | SealFlags::SEAL, "F_SEAL_SHRINK"),
        ];
        for (seals, missing) in texts {
            let fd = memfd(MemfdFlags::empty(), 8192, seals);
            let expected = format!("the shared memory lacks the seals {missing}");
            assert_eq!(refusal(fd, 4096), expected);
        }
        // This memfd cannot be sealed.
        let fd = rustix::fs::memfd_create("", MemfdFlags::CLOEXEC).unwrap();
        let expected = "the shared memory lacks the seals F_SEAL_SHRINK, F_SEAL_GROW";
        assert_eq!(refusal(fd, 4096), expected);
    }

    #[test]
    fn memory_of_huge_pages_is_not_adopted() {
        let error = check_file_system(0x9584_58f6).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the shared memory is on a file system with the number 0x958458f6, not on tmpfs"
        );
        // The kernel may be built without huge pages.
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let Ok(fd) = rustix::fs::memfd_create("", flags) else {
            return;
        };
        rustix::fs::ftruncate(&fd, 2 << 20).unwrap();
        rustix::fs::fcntl_add_seals(&fd, SEALS).unwrap();
        assert_eq!(refusal(fd, 4096), error.to_string());
    }

    #[test]
    fn memory_whose_sizes_the_abi_does_not_know_is_not_adopted() {
        let texts = [
            (0, 4096, "the size of 0 bytes"),
            (4096 + 1, 4096, "the size of 4097 bytes"),
            (5 * 4096, 4 * 4096, "the size of 20480 bytes"),
            (33 << 20, 4096, "the size of 34603008 bytes"),
            (8192, 0, "the page size of 0 bytes"),
            (8192, 6144, "the page size of 6144 bytes"),
            (1 << 20, 128 << 10, "the page size of 131072 bytes"),
        ];
        for (size_bytes, page_size_bytes, text) in texts {
            let text = format!("the shared memory cannot be used: {text}");
            let refusal = refusal(sealed(size_bytes), page_size_bytes);
            assert!(refusal.starts_with(&text), "{refusal}");
        }
    }

    #[test]
    fn descriptors_of_other_things_are_not_adopted() {
        let (pipe, _) = std::io::pipe().unwrap();
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let opened = |path: &str, flags| {
            let flags = OFlags::CLOEXEC | flags;
            rustix::fs::open(path, flags, Mode::empty()).unwrap()
        };
        let path_only = {
            let memory = sealed(8192);
            let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
            opened(&path, OFlags::PATH)
        };
        let things = [
            ("a folder", opened("/dev/shm", OFlags::RDONLY)),
            ("a device", opened("/dev/zero", OFlags::RDWR)),
            ("a path", path_only),
            ("a pipe", pipe.into()),
            ("a socket", socket.into()),
        ];
        for (name, fd) in things {
            let error = SharedFd::adopt(received(fd), 4096).unwrap_err();
            assert!(
                matches!(error, SharedFdError::NoSeals(_)),
                "{name}: {error}"
            );
            let text = "the descriptor of the shared memory is not that of a memfd";
            assert!(error.to_string().starts_with(text), "{name}: {error}");
        }
    }

    #[test]
    fn files_of_file_systems_are_not_adopted() {
        let flags = OFlags::CLOEXEC | OFlags::RDWR | OFlags::TMPFILE;
        let of_memory = rustix::fs::open("/dev/shm", flags, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::fs::ftruncate(&of_memory, 8192).unwrap();
        let expected = "the shared memory lacks the seals F_SEAL_SHRINK, F_SEAL_GROW";
        assert_eq!(refusal(of_memory, 4096), expected);
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let on_disk = File::open(manifest).unwrap();
        let error = SharedFd::adopt(received(on_disk.into()), 4096).unwrap_err();
        // The second error comes if the repository is on tmpfs.
        let is_expected = matches!(error, SharedFdError::NoSeals(_))
            || matches!(&error, SharedFdError::Unsealed { missing } if missing == "F_SEAL_SHRINK, F_SEAL_GROW");
        assert!(is_expected, "{error}");
    }

    #[test]
    fn memory_that_this_process_may_not_write_to_is_not_adopted() {
        let unwritable = SEALS | SealFlags::WRITE;
        let mut refused = vec![memfd(MemfdFlags::empty(), 8192, unwritable)];
        let writable = sealed(8192);
        let path = format!("/proc/self/fd/{}", writable.as_raw_fd());
        refused.push(File::open(path).unwrap().into());
        for fd in refused {
            let text = "the shared memory cannot be mapped: the system refused 8192 bytes: ";
            let refusal = refusal(fd, 4096);
            assert!(refusal.starts_with(text), "{refusal}");
        }
    }
}
