//! Finds the files in a directory tree.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracezero::span;

use crate::report::Unreadable;

/// Directories that are not searched, because tools create them and they hold nothing written by
/// people.
const SKIPPED_DIRECTORIES: [&str; 2] = [".git", "target"];

/// Iterates over the regular files below `root`, directory by directory, and over entries that
/// could not be read. Does not follow symbolic links.
pub fn files(root: &Path) -> impl Iterator<Item = Result<PathBuf, Unreadable>> {
    let mut directories = vec![root.to_owned()];
    let mut found = Vec::new();
    std::iter::from_fn(move || {
        loop {
            if let Some(file) = found.pop() {
                return Some(file);
            }
            let directory = directories.pop()?;
            list(root, &directory, &mut directories, &mut found);
        }
    })
}

/// Lists one directory: appends its directories to `directories`, its files to `found`.
fn list(
    root: &Path,
    directory: &Path,
    directories: &mut Vec<PathBuf>,
    found: &mut Vec<Result<PathBuf, Unreadable>>,
) {
    let _span = span!(
        "walk",
        "list_directory",
        path = relative_name(root, directory)
    );
    let object = |source: &io::Error| Unreadable {
        path: relative_name(root, directory),
        reason: source.to_string(),
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(source) => return found.push(Err(object(&source))),
    };
    for entry in entries {
        match entry.and_then(|entry| Ok((entry.file_type()?, entry))) {
            Ok((kind, entry)) if kind.is_dir() => {
                let name = entry.file_name();
                if SKIPPED_DIRECTORIES.iter().all(|skipped| name != *skipped) {
                    directories.push(entry.path());
                }
            }
            Ok((kind, entry)) if kind.is_file() => found.push(Ok(entry.path())),
            Ok(_) => {}
            Err(source) => found.push(Err(object(&source))),
        }
    }
}

/// Returns the path relative to `root`; `.` for `root` itself.
pub fn relative_name(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    if relative.as_os_str().is_empty() {
        return ".".to_owned();
    }
    relative.to_string_lossy().into_owned()
}
