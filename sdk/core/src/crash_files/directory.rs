//! The directory that the folders of processes are in.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::error::CrashFilesError;

/// Returns the directory for crash files if none is named: `$XDG_RUNTIME_DIR/tracezero`, otherwise
/// `/dev/shm/tracezero-<uid>`. Both are in memory, and are lost when the machine ends.
#[must_use]
pub fn default_directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => Path::new(&runtime).join("tracezero"),
        None => {
            let uid = rustix::process::getuid().as_raw();
            PathBuf::from(format!("/dev/shm/tracezero-{uid}"))
        }
    }
}

/// The kind of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    /// A file system whose reserved room is never refused later: tmpfs, ext4 or xfs.
    ReservesRoom,
    /// Any other file system, with its number.
    Other(u64),
}

impl FileSystem {
    /// The numbers of tmpfs, ext4 and xfs.
    const RESERVING: [u64; 3] = [0x0102_1994, 0xef53, 0x5846_5342];

    fn of_number(number: u64) -> Self {
        if Self::RESERVING.contains(&number) {
            Self::ReservesRoom
        } else {
            Self::Other(number)
        }
    }
}

/// Creates the directory, if it does not exist, and checks that crash files can be in it.
pub(super) fn prepare(directory: &Path) -> Result<(), CrashFilesError> {
    let io = CrashFilesError::io;
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(directory).map_err(io(directory))?;
    let metadata = fs::metadata(directory).map_err(io(directory))?;
    if !is_private(metadata.uid(), metadata.mode()) {
        return Err(CrashFilesError::NotPrivate {
            directory: directory.to_owned(),
            owner_uid: metadata.uid(),
        });
    }
    let status = rustix::fs::statfs(directory).map_err(|error| io(directory)(error.into()))?;
    match FileSystem::of_number(status.f_type as u64) {
        FileSystem::ReservesRoom => Ok(()),
        FileSystem::Other(kind) => Err(CrashFilesError::FileSystem {
            directory: directory.to_owned(),
            kind,
        }),
    }
}

/// Returns true if no user but this one and root can rename or remove what is in a directory.
fn is_private(owner_uid: u32, mode: u32) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let is_ours = owner_uid == 0 || owner_uid == rustix::process::getuid().as_raw();
    is_ours && (mode & OTHERS_WRITE == 0 || mode & STICKY != 0)
}

/// Creates a file that only this user can read.
pub(super) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path)
}

/// Reserves room for `size_bytes` of a file from `offset_bytes` on.
pub(super) fn reserve(
    file: &File,
    offset_bytes: u64,
    size_bytes: u64,
    directory: &Path,
) -> Result<(), CrashFilesError> {
    let flags = rustix::fs::FallocateFlags::empty();
    match rustix::fs::fallocate(file, flags, offset_bytes, size_bytes) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => Err(CrashFilesError::NoSpace {
            directory: directory.to_owned(),
            needed_bytes: size_bytes,
            free_bytes: rustix::fs::statvfs(directory)
                .map_or(0, |status| status.f_bavail * status.f_frsize),
        }),
        Err(error) => Err(CrashFilesError::io(directory)(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_others_can_change_are_not_private() {
        let me = rustix::process::getuid().as_raw();
        assert!(is_private(me, 0o40700));
        assert!(is_private(me, 0o40755));
        assert!(is_private(0, 0o41777));
        assert!(!is_private(me, 0o40770));
        assert!(!is_private(me, 0o40707));
        assert!(!is_private(me + 1, 0o40700));
    }

    #[test]
    fn file_systems_are_known_by_their_numbers() {
        assert_eq!(FileSystem::of_number(0x0102_1994), FileSystem::ReservesRoom);
        assert_eq!(
            FileSystem::of_number(0x6969), // NFS
            FileSystem::Other(0x6969)
        );
    }
}
