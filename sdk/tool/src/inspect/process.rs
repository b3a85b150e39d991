//! What the system says of a process and its threads.

use std::collections::BTreeMap;
use std::fs;

/// A process and its threads.
#[derive(Debug, Default)]
pub(super) struct ProcessInfo {
    name: String,
    state: Option<State>,
    /// The threads by their ids. Empty if the process is in another pid namespace, where its threads
    /// have other ids.
    threads: BTreeMap<i32, Thread>,
}

/// A thread as the system sees it.
#[derive(Debug)]
pub(super) struct Thread {
    /// The name, cut off after 15 bytes.
    pub(super) name: String,
    pub(super) state: State,
}

/// What the system does with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(char);

impl State {
    const RUNNING: Self = Self('R');

    pub(super) const fn as_str(self) -> &'static str {
        match self.0 {
            'R' => "running",
            'S' | 'I' => "sleeping",
            'D' => "waiting for a device",
            'T' => "stopped by a signal",
            't' => "stopped by a debugger",
            'Z' | 'X' => "dead",
            _ => "in an unknown state",
        }
    }
}

impl ProcessInfo {
    /// Asks the system. What it does not say is left out.
    pub(super) fn read(pid: u32) -> Self {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let threads = threads(pid);
        let is_running = threads
            .values()
            .any(|thread| thread.state == State::RUNNING);
        Self {
            name: name_in(&stat).to_owned(),
            // The system gives the state of the main thread.
            state: is_running.then_some(State::RUNNING).or(state_in(&stat)),
            threads,
        }
    }

    /// Returns the name and state of the process, as the title of a report.
    pub(super) fn title(&self, pid: u32) -> String {
        let name = crate::table::printable(&self.name);
        match self.state {
            Some(state) => format!("{name}, process {pid}: {}", state.as_str()),
            None => format!("process {pid}"),
        }
    }

    /// Returns the state of a thread, if it lives and its id is known here.
    pub(super) fn thread(&self, tid: i32) -> Option<State> {
        Some(self.threads.get(&tid)?.state)
    }

    /// Returns all threads that live, by their ids.
    pub(super) const fn threads(&self) -> &BTreeMap<i32, Thread> {
        &self.threads
    }
}

fn threads(pid: u32) -> BTreeMap<i32, Thread> {
    let folder = format!("/proc/{pid}/task");
    if !is_in_our_namespace(pid) {
        return BTreeMap::new();
    }
    let Ok(entries) = fs::read_dir(&folder) else {
        return BTreeMap::new();
    };
    let threads = entries.flatten().filter_map(|entry| {
        let tid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let name = name_in(&stat).to_owned();
        let state = state_in(&stat)?;
        Some((tid, Thread { name, state }))
    });
    threads.collect()
}

fn is_in_our_namespace(pid: u32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    namespace("self") == namespace(&pid.to_string())
}

/// Returns the name in the text of a file `stat`, where it stands in parentheses.
fn name_in(stat: &str) -> &str {
    let rest = stat.split_once('(').map_or("", |(_, rest)| rest);
    rest.rsplit_once(')').map_or("", |(name, _)| name)
}

/// Returns the state in the text of a file `stat`, where it follows the name in parentheses.
fn state_in(stat: &str) -> Option<State> {
    let behind_name = stat.rsplit_once(") ")?.1;
    behind_name.chars().next().map(State)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_parentheses() {
        let stat = "12 (a) R (b) T 1 12 12 0 -1";
        assert_eq!(name_in(stat), "a) R (b");
        assert_eq!(state_in(stat).unwrap().as_str(), "stopped by a signal");
        assert_eq!(state_in(""), None);
    }

    #[test]
    fn this_process_runs() {
        let info = ProcessInfo::read(std::process::id());
        let title = info.title(std::process::id());
        assert!(title.ends_with(": running"), "{title}");
        assert!(!info.threads.is_empty());
    }
}
