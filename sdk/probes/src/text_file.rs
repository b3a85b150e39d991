//! Files of `/proc` and `/sys`, below a folder that is `/` but in tests.
//!
//! The kernel makes the content of such a file when it is read, so its size is not known before. A
//! file is read whole or not at all.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The size from which a file counts as unreadable, in bytes. `/proc/interrupts`, the largest file
/// that is read here, has about 10 MiB on a machine with 512 CPUs.
const FILE_MAX_BYTES: usize = 32 << 20;

/// The size of the first read, in bytes. Most files are smaller, and are then read at once.
const FIRST_READ_BYTES: usize = 4 << 10;

/// The folder that contains `proc` and `sys`.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// Returns the root of this machine.
    pub(crate) fn of_machine() -> Self {
        Self(PathBuf::from("/"))
    }

    /// Returns the path of a file, given relative to the root.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.0.join(relative)
    }
}

#[cfg(test)]
impl From<&support::Folder> for Root {
    fn from(folder: &support::Folder) -> Self {
        Self(folder.into())
    }
}

/// Reads a whole file into `text`, whose old content is dropped, and returns the content.
///
/// # Errors
///
/// If the file cannot be opened or read, or is too large to be read whole.
pub(crate) fn read<'t>(path: &Path, text: &'t mut Vec<u8>) -> io::Result<&'t [u8]> {
    read_opened(&File::open(path)?, text)
}

/// Returns the names of the entries of a folder, sorted. A folder that cannot be read has none.
pub(crate) fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

/// A file that is read again and again. It stays open, so that a process may give up its rights after
/// the first read.
#[derive(Debug)]
pub(crate) struct PolledFile {
    path: PathBuf,
    /// `None` after a failure; the next read opens the file again.
    opened: Option<File>,
}

impl PolledFile {
    /// Opens the file. A file that cannot be opened now may be readable later.
    pub(crate) fn open(path: PathBuf) -> Self {
        let opened = File::open(&path).ok();
        Self { path, opened }
    }

    /// Reads the whole file as it is now into `text`, whose old content is dropped, and returns the
    /// content. Returns `None` if the file cannot be read.
    pub(crate) fn read<'t>(&mut self, text: &'t mut Vec<u8>) -> Option<&'t [u8]> {
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => File::open(&self.path).ok()?,
        };
        read_opened(&opened, text).ok()?;
        self.opened = Some(opened);
        Some(text)
    }
}

fn read_opened<'t>(file: &File, text: &'t mut Vec<u8>) -> io::Result<&'t [u8]> {
    text.clear();
    loop {
        let len = text.len();
        let room = len.max(FIRST_READ_BYTES).min(FILE_MAX_BYTES - len);
        text.resize(len + room, 0);
        let read = file.read_at(&mut text[len..], len as u64);
        text.truncate(len + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(_) if text.len() == FILE_MAX_BYTES => {
                text.clear();
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(0) => return Ok(text),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                text.clear();
                return Err(error);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use support::Folder;

    use super::*;

    #[test]
    fn file_of_any_size_is_read_whole() {
        for size in [0, 1, 4095, 4096, 4097, 100_000] {
            let content: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let folder = Folder::with(&[("file", &content)]);
            let mut text = b"old".to_vec();
            assert_eq!(read(&folder.file("file"), &mut text).unwrap(), content);
        }
    }

    #[test]
    fn file_above_limit_is_an_error_and_not_cut() {
        let folder = Folder::empty();
        let file = File::create(folder.file("file")).unwrap();
        let mut text = Vec::new();
        file.set_len(FILE_MAX_BYTES as u64 - 1).unwrap();
        let read_bytes = read(&folder.file("file"), &mut text).map(<[u8]>::len);
        assert_eq!(read_bytes.unwrap(), FILE_MAX_BYTES - 1);
        file.set_len(FILE_MAX_BYTES as u64).unwrap();
        let error = read(&folder.file("file"), &mut text).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(text, b"");
    }

    #[test]
    fn polled_file_is_read_as_it_is_now() {
        let folder = Folder::with(&[("file", "first and longer")]);
        let mut file = PolledFile::open(folder.file("file"));
        let mut text = Vec::new();
        assert_eq!(file.read(&mut text).unwrap(), b"first and longer");
        folder.write("file", "second");
        assert_eq!(file.read(&mut text).unwrap(), b"second");
    }

    #[test]
    fn polled_file_that_appears_later_is_read() {
        let folder = Folder::empty();
        let mut file = PolledFile::open(folder.file("file"));
        let mut text = Vec::new();
        assert_eq!(file.read(&mut text), None);
        folder.write("file", "here");
        assert_eq!(file.read(&mut text).unwrap(), b"here");
    }

    #[test]
    fn folder_is_not_readable_as_file() {
        let folder = Folder::empty();
        assert!(read(folder.path(), &mut Vec::new()).is_err());
        assert_eq!(entries(&folder.file("missing")), Vec::<String>::new());
    }
}
