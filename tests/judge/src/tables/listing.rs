//! The processes and threads that a trace lists.

use std::collections::BTreeMap;

use perfetto_protos::trace_packet::TracePacket;

/// The processes and threads that data source `linux.process_stats` has listed. Later entries replace
/// earlier ones. Numbers are those of the initial namespace.
#[derive(Default)]
pub(super) struct Listing {
    /// By number, that in the process's own namespace.
    pub(super) processes: BTreeMap<i32, Option<i32>>,
    pub(super) threads: BTreeMap<i32, ListedThread>,
}

pub(super) struct ListedThread {
    pub(super) pid: i32,
    /// The number in the own namespace.
    pub(super) own_tid: Option<i32>,
}

impl Listing {
    pub(super) fn of(packets: &[TracePacket]) -> Self {
        let mut listing = Self::default();
        let packets = packets.iter().filter(|packet| !packet.has_machine_id());
        for packet in packets.filter(|packet| packet.has_process_tree()) {
            for process in &packet.process_tree().processes {
                let own_pid = process.nspid.last().copied();
                listing.processes.insert(process.pid(), own_pid);
            }
            for thread in &packet.process_tree().threads {
                let listed = ListedThread {
                    pid: thread.tgid(),
                    own_tid: thread.nstid.last().copied(),
                };
                listing.threads.insert(thread.tid(), listed);
            }
        }
        listing
    }

    /// Returns the process of a thread.
    pub(super) fn pid_of(&self, tid: i32) -> Option<i32> {
        let listed = self.threads.get(&tid).map(|thread| thread.pid);
        listed.or_else(|| self.processes.contains_key(&tid).then_some(tid))
    }

    /// Returns the numbers of a process and one of its threads in their own namespace.
    pub(super) fn own_ids(&self, pid: i32, tid: i32) -> Option<(i32, i32)> {
        let own_pid = (*self.processes.get(&pid)?)?;
        let own_tid = self.threads.get(&tid).and_then(|thread| thread.own_tid);
        // The main thread may not be listed.
        let own_tid = own_tid.or_else(|| (tid == pid).then_some(own_pid));
        Some((own_pid, own_tid?))
    }
}
