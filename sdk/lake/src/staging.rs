//! A folder of the lake for files that are not complete, and the change that makes them part of the lake.
//!
//! Engines read all files of a table's folder. So files are written here, and are renamed once all files of an
//! export are complete. The name begins with `_`, so that engines that look through the whole lake leave the
//! folder out. Whoever holds the lock of a folder is still writing.
//!
//! A process can be killed between two renames. So a list of all renames and removals is written first. A folder
//! that was left behind without a whole list is removed: the change has not begun. With a list, the next export
//! carries the change to its end.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::LakeError;

const PREFIX: &str = "_staging-";
const LOCK: &str = "lock";
const CHANGE: &str = "change";
/// The last line of a list of changes that was written to its end.
const END: &str = "end";

/// A folder for incomplete files, which is removed on drop.
#[derive(Debug)]
pub(crate) struct Staging {
    lake: PathBuf,
    folder: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
    /// The complete files: where they are, and where in the lake they belong.
    complete: Vec<(PathBuf, PathBuf)>,
}

impl Staging {
    /// Creates a folder in the lake, and the lake if there is none. Completes or removes what processes that were
    /// killed have left behind.
    pub(crate) fn create(lake: &Path) -> Result<Self, LakeError> {
        /// Makes names of folders of one process different.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(lake).map_err(LakeError::at(lake))?;
        recover(lake)?;
        // Relaxed: only the number itself matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = lake.join(format!("{PREFIX}{}-{number}", process::id()));
        fs::create_dir_all(&folder).map_err(LakeError::at(&folder))?;
        let path = folder.join(LOCK);
        let lock = File::create(&path).and_then(|file| file.lock().map(|()| file));
        Ok(Self {
            lake: lake.to_owned(),
            _lock: lock.map_err(LakeError::at(&path))?,
            folder,
            complete: Vec::new(),
        })
    }

    /// Returns a path for an incomplete file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Notes that the file at `path` is complete. [`commit`](Self::commit) renames it to `target`, a path in
    /// the lake.
    pub(crate) fn add(&mut self, path: PathBuf, target: PathBuf) {
        self.complete.push((path, target));
    }

    /// Renames all complete files, in the order in which they were added. Then removes the files `replaced`,
    /// but for those that have been replaced under the same name.
    pub(crate) fn commit(self, replaced: &[PathBuf]) -> Result<(), LakeError> {
        let mut change = String::new();
        for (path, target) in &self.complete {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let _ = writeln!(change, "rename\t{name}\t{}", target.display());
        }
        for path in replaced {
            let path = path.strip_prefix(&self.lake).unwrap_or(path);
            if !self.complete.iter().any(|(_, target)| target == path) {
                let _ = writeln!(change, "remove\t{}", path.display());
            }
        }
        let _ = writeln!(change, "{END}");
        let path = self.folder.join(CHANGE);
        fs::write(&path, &change).map_err(LakeError::at(&path))?;
        apply(&self.lake, &self.folder, &change)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // If this fails, the next export removes the folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Carries out a list of changes. What was done already is left out.
fn apply(lake: &Path, folder: &Path, change: &str) -> Result<(), LakeError> {
    for line in change.lines() {
        let mut words = line.split('\t');
        match (words.next(), words.next(), words.next()) {
            (Some("rename"), Some(name), Some(target)) => {
                let target = lake.join(target);
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent).map_err(LakeError::at(parent))?;
                }
                unless_done(fs::rename(folder.join(name), &target))
                    .map_err(LakeError::at(&target))?;
            }
            (Some("remove"), Some(path), None) => {
                let path = lake.join(path);
                unless_done(fs::remove_file(&path)).map_err(LakeError::at(&path))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A file that is gone was renamed or removed before.
fn unless_done(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Completes changes that were begun, and removes folders that nobody writes to.
pub(crate) fn recover(lake: &Path) -> Result<(), LakeError> {
    let entries = match fs::read_dir(lake) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(LakeError::at(lake)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(LakeError::at(lake))?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let folder = entry.path();
        // The lock is held until the folder is gone, so that no other process does the same.
        let Ok(lock) = File::open(folder.join(LOCK)) else {
            continue;
        };
        if lock.try_lock().is_err() {
            continue;
        }
        if let Ok(change) = fs::read_to_string(folder.join(CHANGE))
            && change.lines().next_back() == Some(END)
        {
            apply(lake, &folder, &change)?;
        }
        fs::remove_dir_all(&folder).map_err(LakeError::at(&folder))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use support::Folder;

    use super::*;

    /// Returns the paths of all files of a lake, in order.
    fn files(lake: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![lake.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path.strip_prefix(lake).unwrap().display().to_string()),
                }
            }
        }
        found.sort();
        found
    }

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "rows").unwrap();
    }

    /// Stages a file that replaces another one.
    fn stage(lake: &Path) -> (Staging, PathBuf) {
        let old = lake.join("slice/old.parquet");
        write(&old);
        let mut staging = Staging::create(lake).unwrap();
        let path = staging.path("slice-000.parquet");
        write(&path);
        staging.add(path, "slice/day=1/new.parquet".into());
        (staging, old)
    }

    #[test]
    fn commit_renames_and_removes() {
        let folder = Folder::empty();
        let (staging, old) = stage(folder.path());
        staging.commit(&[old]).unwrap();
        assert_eq!(files(folder.path()), ["slice/day=1/new.parquet"]);
    }

    #[test]
    fn dropped_folder_leaves_nothing() {
        let folder = Folder::empty();
        drop(stage(folder.path()));
        assert_eq!(files(folder.path()), ["slice/old.parquet"]);
    }

    #[test]
    fn folder_in_use_is_kept() {
        let folder = Folder::empty();
        let (staging, _) = stage(folder.path());
        recover(folder.path()).unwrap();
        assert!(staging.path("slice-000.parquet").exists());
    }

    /// Stages a change, and stops as a process that was killed after it wrote `change`.
    fn killed(lake: &Path, change: &str) {
        let (staging, _) = stage(lake);
        fs::write(staging.folder.join(CHANGE), change).unwrap();
        let folder = staging.folder.clone();
        // Without `drop`, the folder stays. The lock is given back, as at the end of a process.
        staging._lock.unlock().unwrap();
        std::mem::forget(staging);
        assert!(folder.exists());
    }

    const RENAME: &str = "rename\tslice-000.parquet\tslice/day=1/new.parquet\n";
    const REMOVE: &str = "remove\tslice/old.parquet\n";

    #[test]
    fn change_that_was_begun_is_carried_out() {
        let folder = Folder::empty();
        killed(folder.path(), &format!("{RENAME}{REMOVE}{END}\n"));
        recover(folder.path()).unwrap();
        assert_eq!(files(folder.path()), ["slice/day=1/new.parquet"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn change_that_was_not_begun_is_forgotten() {
        for change in ["", RENAME, &format!("{RENAME}{REMOVE}en")] {
            let folder = Folder::empty();
            killed(folder.path(), change);
            recover(folder.path()).unwrap();
            assert_eq!(files(folder.path()), ["slice/old.parquet"], "{change}");
        }
    }

    #[test]
    fn change_that_was_half_done_is_completed() {
        let folder = Folder::empty();
        killed(folder.path(), &format!("{RENAME}{REMOVE}{END}\n"));
        fs::remove_file(folder.path().join("slice/old.parquet")).unwrap();
        recover(folder.path()).unwrap();
        assert_eq!(files(folder.path()), ["slice/day=1/new.parquet"]);
    }
}
