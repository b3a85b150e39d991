//! A machine for tests: a folder with files of `/proc` and `/sys`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use support::Folder;

use crate::text_file::Root;

/// The root of a machine whose files a test writes.
pub(crate) struct FakeRoot(Folder);

impl FakeRoot {
    /// Creates a machine without files.
    pub(crate) fn empty() -> Self {
        Self(Folder::empty())
    }

    /// Creates a machine with files of these paths and contents.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let root = Self::empty();
        for (path, content) in files {
            root.write(path, content);
        }
        root
    }

    /// Writes a file, in folders that need not exist.
    pub(crate) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.0.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Makes a symbolic link, in folders that need not exist.
    pub(crate) fn link(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) {
        let path = self.0.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Removes a folder with all that is in it.
    pub(crate) fn remove(&self, path: impl AsRef<Path>) {
        fs::remove_dir_all(self.0.file(path)).unwrap();
    }

    pub(crate) fn root(&self) -> Root {
        Root::from(&self.0)
    }
}
