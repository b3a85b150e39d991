//! A directory to the files in it.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use tracezero::span;

/// Directories that hold what machines wrote.
const SKIPPED_DIRECTORIES: [&str; 2] = [".git", "target"];

/// All regular files below `directory`, sorted. What cannot be read is reported and skipped.
pub fn text_candidates(directory: &Path) -> Vec<PathBuf> {
    let _span = span!("index", "walk", directory = directory.to_string_lossy());
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let _span = span!("index", "list", directory = directory.to_string_lossy());
        match fs::read_dir(&directory) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    sort_in(&entry, &mut files, &mut directories);
                }
            }
            Err(error) => eprintln!("skipped {}: {error}", directory.display()),
        }
    }
    files.sort();
    files
}

fn sort_in(entry: &DirEntry, files: &mut Vec<PathBuf>, directories: &mut Vec<PathBuf>) {
    let Ok(file_type) = entry.file_type() else {
        return;
    };
    if file_type.is_file() {
        files.push(entry.path());
    } else if file_type.is_dir()
        && !SKIPPED_DIRECTORIES
            .iter()
            .any(|name| entry.file_name() == *name)
    {
        directories.push(entry.path());
    }
}
