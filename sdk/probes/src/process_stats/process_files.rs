//! The files of processes and threads in `/proc`.

use std::fs;
use std::path::PathBuf;

use crate::text_file::{self, Root};
use crate::words::number;

/// The folder `/proc`. Processes may end at any time, so any file may be missing.
#[derive(Debug)]
pub(super) struct ProcessFiles {
    folder: PathBuf,
}

impl ProcessFiles {
    pub(super) fn new(root: &Root) -> Self {
        Self {
            folder: root.path("proc"),
        }
    }

    /// Returns the ids of all processes, sorted.
    pub(super) fn processes(&self) -> Vec<i32> {
        positive(ids_in(self.folder.clone()))
    }

    /// Returns the ids of all threads of a process, sorted.
    pub(super) fn threads(&self, process: i32) -> Vec<i32> {
        positive(ids_in(self.folder.join(format!("{process}/task"))))
    }

    /// Reads a file of a process or thread into `text`. Returns an empty text if that fails.
    pub(super) fn read<'t>(&self, id: i32, name: &str, text: &'t mut Vec<u8>) -> &'t [u8] {
        let path = self.folder.join(format!("{id}/{name}"));
        text_file::read(&path, text).unwrap_or_default()
    }

    /// Returns the numbers of the open files of a process, sorted.
    pub(super) fn open_files(&self, process: i32) -> Vec<u64> {
        ids_in(self.folder.join(format!("{process}/fd")))
    }

    /// Returns the target of an open file of a process.
    pub(super) fn open_file(&self, process: i32, number: u64) -> Option<PathBuf> {
        fs::read_link(self.folder.join(format!("{process}/fd/{number}"))).ok()
    }
}

/// Returns the entries of a folder that are numbers, sorted.
fn ids_in<N: Ord + std::str::FromStr>(folder: PathBuf) -> Vec<N> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut ids: Vec<N> = names
        .filter_map(|name| number(name.as_encoded_bytes()))
        .collect();
    ids.sort_unstable();
    ids
}

fn positive(mut ids: Vec<i32>) -> Vec<i32> {
    ids.retain(|id| *id > 0);
    ids
}
