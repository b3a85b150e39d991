//! The processes and threads of the machine, as the trace lists them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use protozero::DecodeError;
use tracezero_kernel::protos::ProcessTreeDecoder;
use tracezero_kernel::protos::process_tree::{ProcessDecoder, ThreadDecoder};

use crate::names::{NameId, NameTable};

/// The maximum number of processes, and of threads. Further ones have no names.
const ENTRIES_MAX: usize = 1 << 20;

/// What packets of the kind `process_tree` say. Later ones replace earlier ones.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessTree {
    /// By the id in the initial namespace.
    processes: HashMap<i32, Process>,
    threads: HashMap<i32, Thread>,
}

/// A process or thread that the trace lists, whether or not it did anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The id of the process, in the initial namespace.
    pub pid: i32,
    /// The id of the process in its own namespace, if that is not the initial one.
    pub own_pid: Option<i32>,
    /// For a thread, its id in the initial namespace, and in its own if that is another one.
    pub tid: Option<(i32, Option<i32>)>,
    /// The name of the process, or of the thread.
    pub name: NameId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    name: NameId,
    /// The id in the innermost namespace of the process, if that is not the initial one.
    own_pid: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thread {
    pid: i32,
    name: NameId,
    own_tid: Option<i32>,
}

impl ProcessTree {
    /// Adds the entries of a packet.
    pub(super) fn add(&mut self, tree: &[u8], names: &mut NameTable) -> Result<(), DecodeError> {
        let tree = ProcessTreeDecoder::new(tree);
        for process in tree.processes() {
            self.add_process(&process?, names)?;
        }
        for thread in tree.threads() {
            self.add_thread(&thread?, names)?;
        }
        Ok(())
    }

    fn add_process(
        &mut self,
        process: &ProcessDecoder<'_>,
        names: &mut NameTable,
    ) -> Result<(), DecodeError> {
        let command = process.cmdline().next().transpose()?.unwrap_or_default();
        let is_path = !process.cmdline_is_comm()?.unwrap_or_default();
        let name = match command.rsplit_once('/') {
            Some((_, name)) if is_path => name,
            _ => command,
        };
        let added = Process {
            name: names.intern(name),
            own_pid: process.nspid().last().transpose()?,
        };
        set(
            &mut self.processes,
            process.pid()?.unwrap_or_default(),
            added,
        );
        Ok(())
    }

    fn add_thread(
        &mut self,
        thread: &ThreadDecoder<'_>,
        names: &mut NameTable,
    ) -> Result<(), DecodeError> {
        let added = Thread {
            pid: thread.tgid()?.unwrap_or_default(),
            name: names.intern(thread.name()?.unwrap_or_default()),
            own_tid: thread.nstid().last().transpose()?,
        };
        set(&mut self.threads, thread.tid()?.unwrap_or_default(), added);
        Ok(())
    }

    /// Returns the process of a thread.
    pub(super) fn pid_of(&self, tid: i32) -> Option<i32> {
        let thread = self.threads.get(&tid).map(|thread| thread.pid);
        thread.or_else(|| self.processes.contains_key(&tid).then_some(tid))
    }

    pub(super) fn thread_name(&self, tid: i32) -> NameId {
        self.threads.get(&tid).map_or(NameId::NONE, |it| it.name)
    }

    pub(super) fn process_name(&self, pid: i32) -> NameId {
        self.processes.get(&pid).map_or(NameId::NONE, |it| it.name)
    }

    /// Returns the processes and threads, in the order of their ids: processes first, and then threads.
    pub(super) fn listed(&self) -> Vec<Listed> {
        let processes = self.processes.iter().map(|(pid, process)| Listed {
            pid: *pid,
            own_pid: process.own_pid,
            tid: None,
            name: process.name,
        });
        let threads = self.threads.iter().map(|(tid, thread)| Listed {
            pid: thread.pid,
            own_pid: self.processes.get(&thread.pid).and_then(|it| it.own_pid),
            tid: Some((*tid, thread.own_tid)),
            name: thread.name,
        });
        let mut listed: Vec<_> = processes.chain(threads).collect();
        listed.sort_by_key(|entry| (entry.tid, entry.pid));
        listed
    }

    /// Returns the ids of threads in the innermost namespaces of their processes, as pairs of process
    /// and thread, each with the id of the thread in the initial namespace.
    pub(super) fn own_ids(&self) -> impl Iterator<Item = ((i32, i32), i32)> {
        let threads = self.threads.iter().filter_map(|(tid, thread)| {
            let process = self.processes.get(&thread.pid)?;
            Some(((process.own_pid?, thread.own_tid?), *tid))
        });
        // The main thread may have no entry of its own.
        let mains = self.processes.iter().filter_map(|(pid, process)| {
            let own_pid = process.own_pid?;
            Some(((own_pid, own_pid), *pid))
        });
        threads.chain(mains)
    }
}

fn set<T>(map: &mut HashMap<i32, T>, id: i32, value: T) {
    let is_full = map.len() >= ENTRIES_MAX;
    match map.entry(id) {
        Entry::Occupied(mut known) => *known.get_mut() = value,
        Entry::Vacant(_) if is_full => {}
        Entry::Vacant(place) => drop(place.insert(value)),
    }
}
