//! Temporary folders for the files of tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process, thread};

/// The maximum number of characters of a test's name that a folder's name has.
const NAME_MAX: usize = 40;

/// A temporary folder that only this test uses. Dropping it removes the folder, unless the test
/// failed: then the folder stays for inspection.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates an empty folder.
    #[must_use]
    pub fn empty() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the number only has to be unique, and needs no ordering.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let test = thread::current()
            .name()
            .unwrap_or_default()
            .replace("::", "-");
        // The path of a socket in the folder may have 107 bytes.
        let test: String = test.chars().take(NAME_MAX).collect();
        let name = format!("tracezero-{}-{number}-{test}", process::id());
        let path = env::temp_dir().join(name);
        // An earlier process with the same id may have left it.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Creates a folder with files of these names and contents.
    #[must_use]
    pub fn with(files: &[(impl AsRef<Path>, impl AsRef<[u8]>)]) -> Self {
        let folder = Self::empty();
        for (name, content) in files {
            folder.write(name, content);
        }
        folder
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the folder. The file need not exist.
    #[must_use]
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, and returns its path.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Reads a file.
    #[must_use]
    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        fs::read(self.file(name)).unwrap()
    }

    /// Returns the names of the files and folders inside, sorted.
    #[must_use]
    pub fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl From<&Folder> for PathBuf {
    fn from(folder: &Folder) -> Self {
        folder.path().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
