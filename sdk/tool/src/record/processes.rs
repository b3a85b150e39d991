//! The processes that a program has started.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The maximum number of processes that are remembered.
const PROCESSES_MAX: usize = 10_000;

/// A process that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) parent: u32,
    /// The name of the process's main thread. Unless the process sets another, it is the name of
    /// the executable.
    pub(super) name: String,
    /// The path of the executable. `None` if the process belongs to another user, or was about to
    /// end.
    executable: Option<PathBuf>,
    /// The number of calls of `look` that found the process with this executable.
    looks: u32,
}

/// The process of a program and its descendants, as far as calls of `look` have found them.
#[derive(Debug)]
pub(super) struct Processes {
    root: u32,
    seen: BTreeMap<u32, Process>,
}

impl Processes {
    /// Creates the list for the program with process id `root`.
    pub(super) fn of(root: u32) -> Self {
        let seen = BTreeMap::new();
        Self { root, seen }
    }

    /// Finds the processes that exist now, and remembers them.
    pub(super) fn look(&mut self) {
        let mut to_visit = vec![(self.root, 0)];
        while let Some((pid, parent)) = to_visit.pop() {
            self.note(pid, parent);
            to_visit.extend(children(pid).into_iter().map(|child| (child, pid)));
        }
    }

    fn note(&mut self, pid: u32, parent: u32) {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let Ok(name) = fs::read_to_string(folder.join("comm")) else {
            return;
        };
        let executable = fs::read_link(folder.join("exe")).ok();
        let name = name.trim_end().to_owned();
        let is_full = self.seen.len() >= PROCESSES_MAX;
        match self.seen.get_mut(&pid) {
            Some(known) if known.executable == executable => known.looks += 1,
            // The process is about to end. Keeps the executable that was found before.
            Some(_) if executable.is_none() => {}
            None if is_full => {}
            _ => {
                let looks = 1;
                let process = Process {
                    parent,
                    name,
                    executable,
                    looks,
                };
                self.seen.insert(pid, process);
            }
        }
    }

    /// Returns the processes that have recorded nothing, although their parents have recorded and
    /// run the same executable. Leaves out processes that only one call of `look` has found: they
    /// may have executed another program since.
    pub(super) fn silent_forks(
        &self,
        has_recorded: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = (u32, &Process)> {
        let is_silent_fork = move |pid: u32, process: &Process| {
            let parent = self.seen.get(&process.parent);
            !has_recorded(pid)
                && has_recorded(process.parent)
                && process.looks > 1
                && process.executable.is_some()
                && parent.is_some_and(|parent| parent.executable == process.executable)
        };
        let seen = self.seen.iter();
        seen.filter(move |(pid, process)| is_silent_fork(**pid, process))
            .map(|(pid, process)| (*pid, process))
    }
}

/// Returns the children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids = list.split_ascii_whitespace();
            pids.filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}
