//! The files of a folder.
//!
//! The user who can write to a folder chooses its content. So nothing here waits, as opening a pipe
//! would, and nothing follows a link out of the folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tracezero_core::crash_files::FOLDER_SUFFIX;

use crate::error::RecoverError;

/// Returns the paths in a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, RecoverError> {
    let entries = fs::read_dir(folder).map_err(RecoverError::io(folder))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Returns the folders of processes in a directory. A directory that does not exist has none.
pub(crate) fn process_folders(directory: &Path) -> Result<Vec<PathBuf>, RecoverError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let mut folders = entries(directory)?;
    folders.retain(|path| path.to_string_lossy().ends_with(FOLDER_SUFFIX));
    Ok(folders)
}

/// Opens a file of a folder of crash files.
pub(crate) fn open_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_regular(path, options, OFlags::NOFOLLOW)
}

/// Opens a regular file. Everything else is an error.
pub(crate) fn open_regular(
    path: &Path,
    options: &mut OpenOptions,
    flags: OFlags,
) -> io::Result<File> {
    // A pipe is opened without waiting for its other end. Regular files ignore the flag.
    let flags = flags | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("no regular file"))
    }
}

/// Reads a file of a folder of crash files, or its first `max_bytes` if it is larger.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open_file(path, OpenOptions::new().read(true))?;
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}
