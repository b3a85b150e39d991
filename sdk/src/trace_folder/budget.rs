//! The limits of a folder, and which of its files are removed to keep them.
//!
//! Room is made before something is written, so that the folder is within its limits at any time.
//! The oldest files go first. A file that somebody uses is removed only if nothing else is left, and
//! its user is told. Files whose names do not match the pattern are neither counted nor removed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::names::{FileNames, NameAge, PARTIAL_SUFFIX, time_of};

/// The limits of a folder. `None` stands for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The number of files.
    pub(crate) files: Option<usize>,
    /// The size of all files together.
    pub(crate) total_bytes: Option<u64>,
    /// The time since the one in the name of a file.
    pub(crate) age: Option<Duration>,
}

/// A folder of trace files.
#[derive(Debug)]
pub(crate) struct TraceFolder {
    /// The absolute path.
    pub(crate) path: PathBuf,
    pub(crate) names: FileNames,
    pub(crate) limits: Limits,
}

/// The room that is wanted in a folder, besides the complete files.
pub(crate) struct Room<'r> {
    /// The number of files that are being written, or are about to be.
    pub(crate) files: usize,
    /// The size of these files.
    pub(crate) bytes: u64,
    /// The paths of those of them that exist. Their present sizes do not count.
    pub(crate) open: &'r [PathBuf],
    /// The present time.
    pub(crate) now: SystemTime,
}

/// The files of a folder that somebody uses.
pub(crate) trait Held {
    /// Returns true if the file is in use.
    fn is_held(&self, path: &Path) -> bool;

    /// Tells that the file was removed.
    fn removed(&self, path: &Path);
}

/// An error of the file system, with its path.
#[derive(Debug)]
pub(crate) struct FolderError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// A file in a folder.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    age: NameAge,
    pub(crate) bytes: u64,
}

/// What the removal of files has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    /// The size of the files that are left, without the open ones.
    pub(crate) left_bytes: u64,
    /// The number of files that were removed.
    pub(crate) removed: u64,
    /// True if the room that was wanted is there.
    pub(crate) is_enough: bool,
}

impl FoundFile {
    /// Returns the time in the name of the file.
    pub(crate) fn time(&self) -> SystemTime {
        time_of(&self.age.0)
    }

    /// Returns true if the file was not complete when its writer was last heard of.
    pub(crate) fn is_partial(&self) -> bool {
        let name = self.path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.ends_with(PARTIAL_SUFFIX))
    }

    /// Returns the path that the file has once it is complete.
    pub(crate) fn complete_path(&self) -> PathBuf {
        match self.is_partial() {
            true => self.path.with_extension(""),
            false => self.path.clone(),
        }
    }
}

impl TraceFolder {
    /// Returns the files whose names match the pattern, the oldest first.
    pub(crate) fn files(&self) -> Result<Vec<FoundFile>, FolderError> {
        let error = |source| FolderError {
            path: self.path.clone(),
            source,
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name();
            let age = name.to_str().and_then(|name| self.names.age_of(name));
            // Another process or the application may have moved the file meanwhile.
            if let Some(age) = age
                && let Ok(metadata) = entry.metadata()
            {
                files.push(FoundFile {
                    path: entry.path(),
                    age,
                    bytes: metadata.len(),
                });
            }
        }
        files.sort_by(|one, other| one.age.cmp(&other.age));
        Ok(files)
    }

    /// Removes the oldest files until the room that is wanted is there. Also removes files that are
    /// too old.
    pub(crate) fn make_room(
        &self,
        room: &Room<'_>,
        held: &dyn Held,
    ) -> Result<Removal, FolderError> {
        let mut files = self.files()?;
        files.retain(|file| !room.open.contains(&file.path));
        let mut count = files.len() + room.files;
        let mut left_bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut removed = 0;
        let Limits {
            files: files_max,
            total_bytes,
            age,
        } = self.limits;
        for takes_held in [false, true] {
            let mut left = Vec::with_capacity(files.len());
            for file in files {
                let is_over = files_max.is_some_and(|max| count > max)
                    || total_bytes.is_some_and(|max| left_bytes + room.bytes > max);
                let is_old = age.is_some_and(|max| {
                    let since = room.now.duration_since(file.time());
                    since.is_ok_and(|since| since > max)
                });
                if !(is_over || is_old) || held.is_held(&file.path) != takes_held {
                    left.push(file);
                    continue;
                }
                remove(&file.path)?;
                held.removed(&file.path);
                count -= 1;
                left_bytes -= file.bytes;
                removed += 1;
            }
            files = left;
        }
        Ok(Removal {
            left_bytes,
            removed,
            is_enough: total_bytes.is_none_or(|max| left_bytes + room.bytes <= max),
        })
    }

    /// Removes the oldest file, one that nobody uses if there is such a file. Returns its size; `None`
    /// if there is no file but the `open` ones.
    pub(crate) fn remove_oldest(
        &self,
        open: &[PathBuf],
        held: &dyn Held,
    ) -> Result<Option<u64>, FolderError> {
        let mut files = self.files()?;
        files.retain(|file| !open.contains(&file.path));
        let free = files.iter().find(|file| !held.is_held(&file.path));
        let Some(oldest) = free.or(files.first()) else {
            return Ok(None);
        };
        remove(&oldest.path)?;
        held.removed(&oldest.path);
        Ok(Some(oldest.bytes))
    }
}

/// Removes a file. Another process that uses the folder may have done so already.
fn remove(path: &Path) -> Result<(), FolderError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FolderError {
            path: path.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}

/// Returns the path of a file until it is complete.
pub(crate) fn partial_path(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(PARTIAL_SUFFIX);
    PathBuf::from(partial)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::time::UNIX_EPOCH;

    use support::Folder;

    use super::*;

    const NOW: SystemTime = UNIX_EPOCH;

    /// Files in use, and those of them that were removed.
    #[derive(Default)]
    struct InUse {
        paths: HashSet<PathBuf>,
        removed: RefCell<Vec<PathBuf>>,
    }

    impl Held for InUse {
        fn is_held(&self, path: &Path) -> bool {
            self.paths.contains(path)
        }

        fn removed(&self, path: &Path) {
            if self.paths.contains(path) {
                self.removed.borrow_mut().push(path.to_owned());
            }
        }
    }

    /// Creates a folder with a file of 10 bytes for each of these seconds since 1970.
    fn folder(temporary: &Folder, limits: Limits, seconds: &[u64]) -> (TraceFolder, Vec<PathBuf>) {
        let folder = TraceFolder {
            path: temporary.path().to_owned(),
            names: FileNames::new("{time}-{pid}-{number}").unwrap(),
            limits,
        };
        let create = |seconds: &u64| {
            let time = NOW + Duration::from_secs(*seconds);
            let path = folder.path.join(folder.names.next("", time));
            fs::write(&path, [0; 10]).unwrap();
            path
        };
        let paths = seconds.iter().map(create).collect();
        (folder, paths)
    }

    fn room(bytes: u64, seconds: u64) -> Room<'static> {
        Room {
            files: 1,
            bytes,
            open: &[],
            now: NOW + Duration::from_secs(seconds),
        }
    }

    fn names_left(folder: &TraceFolder) -> Vec<PathBuf> {
        let files = folder.files().unwrap();
        files.into_iter().map(|file| file.path).collect()
    }

    #[test]
    fn oldest_files_are_removed_until_the_room_is_there() {
        let temporary = Folder::empty();
        let limits = Limits {
            total_bytes: Some(35),
            ..Limits::default()
        };
        let (folder, paths) = folder(&temporary, limits, &[30, 10, 20]);
        fs::write(folder.path.join("notes"), [0; 100]).unwrap();
        let removal = folder.make_room(&room(5, 40), &InUse::default()).unwrap();
        assert_eq!((removal.removed, removal.left_bytes), (0, 30));
        let removal = folder.make_room(&room(6, 40), &InUse::default()).unwrap();
        assert_eq!((removal.removed, removal.left_bytes), (1, 20));
        assert_eq!(
            names_left(&folder),
            [&paths[2], &paths[0]].map(Clone::clone)
        );
        let removal = folder.make_room(&room(36, 40), &InUse::default()).unwrap();
        assert!(!removal.is_enough);
        assert!(names_left(&folder).is_empty());
        assert!(folder.path.join("notes").exists());
    }

    #[test]
    fn number_and_age_of_files_are_limited() {
        let temporary = Folder::empty();
        let limits = Limits {
            files: Some(3),
            age: Some(Duration::from_secs(50)),
            ..Limits::default()
        };
        let (folder, paths) = folder(&temporary, limits, &[10, 20, 30]);
        folder.make_room(&room(0, 40), &InUse::default()).unwrap();
        assert_eq!(names_left(&folder), paths[1..]);
        folder.make_room(&room(0, 80), &InUse::default()).unwrap();
        assert_eq!(names_left(&folder), paths[2..]);
    }

    #[test]
    fn a_file_in_use_is_removed_last_and_its_user_is_told() {
        let temporary = Folder::empty();
        let limits = Limits {
            total_bytes: Some(20),
            ..Limits::default()
        };
        let (folder, paths) = folder(&temporary, limits, &[10, 20]);
        let in_use = InUse {
            paths: HashSet::from([paths[0].clone()]),
            ..InUse::default()
        };
        folder.make_room(&room(10, 40), &in_use).unwrap();
        assert_eq!(names_left(&folder), paths[..1]);
        assert!(in_use.removed.borrow().is_empty());
        folder.make_room(&room(20, 40), &in_use).unwrap();
        assert_eq!(*in_use.removed.borrow(), paths[..1]);
    }

    #[test]
    fn open_files_are_counted_by_the_room_that_is_wanted() {
        let temporary = Folder::empty();
        let limits = Limits {
            total_bytes: Some(20),
            ..Limits::default()
        };
        let (folder, paths) = folder(&temporary, limits, &[10, 20]);
        let open = [paths[1].clone()];
        let wanted = Room {
            open: &open,
            ..room(10, 40)
        };
        let removal = folder.make_room(&wanted, &InUse::default()).unwrap();
        assert_eq!((removal.removed, removal.left_bytes), (0, 10));
    }
}
