//! The tables `process`, `thread` and `track`.

use std::collections::{HashMap, HashSet};

use tracezero_reader::kernel::{KernelTimelines, Listed, ThreadId};
use tracezero_reader::{Counter, NameId, NameTable, TrackId, TrackKind, TrackTable};

use crate::error::LakeError;
use crate::staging::Staging;
use crate::table_writer::TableWriter;

/// The machine of the service, of which the kernel's half of a trace is.
const KERNELS_MACHINE: u32 = 0;

/// The processes, threads and tracks of a trace.
///
/// Processes and threads are numbered from 1, in the order in which the trace mentions them. Number 0 is that of
/// the kernel's idle thread in trace processor, so it is not used.
#[derive(Debug, Default)]
pub(super) struct Threads {
    names: NameTable,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    /// By the machine and the id of the process.
    by_pid: HashMap<(u32, i32), i64>,
    /// By the machine and the ids of the process and the thread.
    by_ids: HashMap<(u32, Option<i32>, i32), i64>,
    by_kernel_id: HashMap<ThreadId, i64>,
    /// For each track what it belongs to.
    owners: Vec<Owner>,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    machine_id: u32,
    pid: i32,
    name: NameId,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    machine_id: u32,
    tid: i32,
    name: NameId,
    pid: Option<i32>,
    upid: Option<i64>,
}

/// The ids in the tables of processes that have tracks under the ids of their own namespace.
#[derive(Debug)]
struct OwnIds {
    /// By id in the initial namespace.
    pids: HashMap<i32, i32>,
    /// The ids of threads in their own namespace, by those in the initial one.
    tids: HashMap<i32, i32>,
}

/// What a track belongs to. Names are those of [`Threads::names`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owner {
    pub(super) utid: Option<i64>,
    pub(super) upid: Option<i64>,
    pub(super) thread_name: NameId,
    pub(super) process_name: NameId,
    pub(super) track_name: NameId,
}

impl Threads {
    /// Numbers the processes and threads that tracks, and the kernel's half of a trace, mention.
    pub(super) fn new(tracks: &TrackTable, names: &NameTable, kernel: &KernelTimelines) -> Self {
        let mut threads = Self::default();
        for (_, track) in tracks {
            match track.kind {
                TrackKind::Process { pid, name } => {
                    threads.add_process(track.machine_id, pid, names.text(name));
                }
                TrackKind::Thread { pid, tid, name } => {
                    let name = names.text(name);
                    let utid = threads.add_thread(track.machine_id, Some(pid), tid, name);
                    if track.machine_id != KERNELS_MACHINE {
                        continue;
                    }
                    // A thread of the process that has events is one that the kernel knows by the same ids, or
                    // by those of the initial namespace.
                    let range = kernel.range();
                    let times = [range.end.saturating_sub(1), range.start];
                    let mut found = times.iter().map(|time| kernel.find_thread(pid, tid, *time));
                    if let Some(Some(id)) = found.find(Option::is_some) {
                        threads.by_kernel_id.insert(id, utid);
                    }
                }
                _ => {}
            }
        }
        let listed = kernel.listed();
        let own_ids = OwnIds::new(&listed, |pid| {
            threads.by_pid.contains_key(&(KERNELS_MACHINE, pid))
        });
        let names_of_kernel = kernel.names();
        for thread in kernel.threads() {
            if threads.by_kernel_id.contains_key(&thread.id) {
                continue;
            }
            let (pid, tid) = own_ids.of_thread(thread.pid, thread.tid);
            if let Some(pid) = pid {
                let name = names_of_kernel.text(thread.process_name);
                threads.add_process(KERNELS_MACHINE, pid, name);
            }
            let name = names_of_kernel.text(thread.name);
            let utid = threads.add_thread(KERNELS_MACHINE, pid, tid, name);
            threads.by_kernel_id.insert(thread.id, utid);
        }
        for listed in listed {
            let name = names_of_kernel.text(listed.name);
            match listed.tid {
                None => {
                    let pid = own_ids.of_process(listed.pid);
                    threads.add_process(KERNELS_MACHINE, pid, name);
                }
                Some((tid, _)) => {
                    let (pid, tid) = own_ids.of_thread(Some(listed.pid), tid);
                    threads.add_thread(KERNELS_MACHINE, pid, tid, name);
                }
            }
        }
        let owners = tracks
            .iter()
            .map(|(id, _)| threads.owner(id, tracks, names));
        let owners: Vec<_> = owners.collect();
        // Titles of tracks are names of the trace, and get an id here.
        threads.owners = owners
            .into_iter()
            .map(|(owner, title)| Owner {
                track_name: threads.names.intern(title),
                ..owner
            })
            .collect();
        threads
    }

    fn add_process(&mut self, machine_id: u32, pid: i32, name: &str) -> i64 {
        let next = self.processes.len() as i64 + 1;
        let upid = *self.by_pid.entry((machine_id, pid)).or_insert(next);
        let name = self.names.intern(name);
        match self.processes.get_mut(upid as usize - 1) {
            None => self.processes.push(Process {
                machine_id,
                pid,
                name,
            }),
            Some(known) if known.name.is_none() => known.name = name,
            Some(_) => {}
        }
        upid
    }

    fn add_thread(&mut self, machine_id: u32, pid: Option<i32>, tid: i32, name: &str) -> i64 {
        let upid = pid.map(|pid| self.add_process(machine_id, pid, ""));
        let next = self.threads.len() as i64 + 1;
        let utid = *self.by_ids.entry((machine_id, pid, tid)).or_insert(next);
        let name = self.names.intern(name);
        match self.threads.get_mut(utid as usize - 1) {
            None => self.threads.push(Thread {
                machine_id,
                tid,
                name,
                pid,
                upid,
            }),
            Some(known) if known.name.is_none() => known.name = name,
            Some(_) => {}
        }
        utid
    }

    /// Returns what a track belongs to, and the name of the track.
    fn owner<'n>(
        &self,
        id: TrackId,
        tracks: &TrackTable,
        names: &'n NameTable,
    ) -> (Owner, &'n str) {
        let mut owner = Owner::default();
        for (_, track) in tracks.ancestry(id) {
            match track.kind {
                TrackKind::Thread { pid, tid, .. } if owner.utid.is_none() => {
                    let ids = (track.machine_id, Some(pid), tid);
                    owner.utid = self.by_ids.get(&ids).copied();
                    owner.upid = self.by_pid.get(&(track.machine_id, pid)).copied();
                }
                TrackKind::Process { pid, .. } if owner.upid.is_none() => {
                    owner.upid = self.by_pid.get(&(track.machine_id, pid)).copied();
                }
                _ => {}
            }
        }
        if let Some(utid) = owner.utid {
            owner.thread_name = self.threads[utid as usize - 1].name;
        }
        if let Some(upid) = owner.upid {
            owner.process_name = self.processes[upid as usize - 1].name;
        }
        (owner, tracks.title(id, names))
    }

    /// Returns the names of processes, threads and tracks.
    pub(super) const fn names(&self) -> &NameTable {
        &self.names
    }

    /// Returns what the track with this index belongs to.
    #[inline]
    pub(super) fn of_track(&self, index: u32) -> Owner {
        self.owners.get(index as usize).copied().unwrap_or_default()
    }

    /// Returns the number of a thread of the kernel's half.
    pub(super) fn utid(&self, id: ThreadId) -> Option<i64> {
        self.by_kernel_id.get(&id).copied()
    }

    /// Returns the name of the only process; `None` if there are several, or none.
    pub(super) fn only_process(&self) -> Option<&str> {
        match &self.processes[..] {
            [process] => Some(self.names.text(process.name)).filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    /// Writes the rows of the table `process`.
    pub(super) fn write_processes(
        &self,
        table: &mut TableWriter,
        staging: &Staging,
    ) -> Result<(), LakeError> {
        for (upid, process) in (1..).zip(&self.processes) {
            table
                .row(staging)?
                .int(upid)
                .int(process.pid.into())
                .maybe_name(process.name, &self.names)
                .int(process.machine_id.into());
        }
        Ok(())
    }

    /// Writes the rows of the table `thread`.
    pub(super) fn write_threads(
        &self,
        table: &mut TableWriter,
        staging: &Staging,
    ) -> Result<(), LakeError> {
        for (utid, thread) in (1..).zip(&self.threads) {
            let is_main = thread.pid.map(|pid| i64::from(pid == thread.tid));
            table
                .row(staging)?
                .int(utid)
                .int(thread.tid.into())
                .maybe_name(thread.name, &self.names)
                .maybe_int(thread.upid)
                .maybe_int(is_main)
                .int(thread.machine_id.into());
        }
        Ok(())
    }

    /// Writes the rows of the table `track`.
    pub(super) fn write_tracks(
        &self,
        table: &mut TableWriter,
        staging: &Staging,
        tracks: &TrackTable,
        names: &NameTable,
    ) -> Result<(), LakeError> {
        for (id, track) in tracks {
            let owner = self.of_track(id.index() as u32);
            let kind = match &track.kind {
                TrackKind::Process { .. } => (0, "process"),
                TrackKind::Thread { .. } => (1, "thread"),
                TrackKind::Counter(_) => (2, "counter"),
                _ => (3, "track"),
            };
            let unit = match &track.kind {
                TrackKind::Counter(counter) => unit(counter, names),
                _ => None,
            };
            table
                .row(staging)?
                .int(id.index() as i64)
                .int(track.uuid.cast_signed())
                .maybe_int(track.parent.map(|parent| parent.index() as i64))
                .choice(Some(kind))
                .maybe_name(owner.track_name, &self.names)
                .maybe_int(owner.utid)
                .maybe_int(owner.upid)
                .maybe_text(unit);
        }
        Ok(())
    }
}

impl OwnIds {
    /// `has_tracks` tells whether the trace has tracks under the id of a process.
    fn new(listed: &[Listed], has_tracks: impl Fn(i32) -> bool) -> Self {
        let processes = listed.iter().filter(|entry| entry.tid.is_none());
        let pids: HashSet<i32> = processes.clone().map(|entry| entry.pid).collect();
        // If another process has the id in the initial namespace, the tracks are taken for that one's, as
        // KernelTimelines::find_thread takes them.
        let own = processes.filter_map(|entry| {
            let own_pid = entry.own_pid?;
            let is_it = has_tracks(own_pid) && !pids.contains(&own_pid);
            is_it.then_some((entry.pid, own_pid))
        });
        let tids = listed.iter().filter_map(|entry| {
            let (tid, own_tid) = entry.tid?;
            Some((tid, own_tid?))
        });
        Self {
            pids: own.collect(),
            tids: tids.collect(),
        }
    }

    /// Returns the id of a process in the tables.
    fn of_process(&self, pid: i32) -> i32 {
        self.pids.get(&pid).copied().unwrap_or(pid)
    }

    /// Returns the ids of a process and a thread in the tables.
    fn of_thread(&self, pid: Option<i32>, tid: i32) -> (Option<i32>, i32) {
        let Some((pid, own_pid)) = pid.and_then(|pid| Some((pid, *self.pids.get(&pid)?))) else {
            return (pid, tid);
        };
        // The main thread may have no entry of its own.
        let main = (tid == pid).then_some(own_pid);
        match self.tids.get(&tid).copied().or(main) {
            Some(own_tid) => (Some(own_pid), own_tid),
            None => (Some(pid), tid),
        }
    }
}

fn unit<'n>(counter: &Counter, names: &'n NameTable) -> Option<&'n str> {
    use tracezero_core::protos::counter_descriptor::Unit;
    match counter.unit {
        _ if !counter.unit_name.is_none() => Some(names.text(counter.unit_name)),
        Unit::TIME_NS => Some("ns"),
        Unit::SIZE_BYTES => Some("bytes"),
        Unit::COUNT => Some("count"),
        _ => None,
    }
}
