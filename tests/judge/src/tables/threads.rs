//! Processes and threads.

use std::collections::{BTreeSet, HashMap};

use perfetto_protos::process_descriptor::ProcessDescriptor;
use perfetto_protos::track_descriptor::TrackDescriptor;
use serde_json::{Value as Json, json};

use super::kernel::KernelThreads;
use super::listing::Listing;

/// The processes and threads of a trace: those of tracks, those that it lists, and those that the
/// kernel's events mention.
pub(super) struct ThreadRows {
    pids: BTreeSet<i32>,
    threads: BTreeSet<(Option<i32>, i32)>,
    /// The numbers of the threads that the kernel's events mention, in their order.
    kernel_tids: Vec<i32>,
}

impl ThreadRows {
    pub(super) fn new(
        descriptors: &HashMap<u64, TrackDescriptor>,
        listing: &Listing,
        kernel: &KernelThreads,
    ) -> Self {
        let tracks = descriptors.values();
        let processes = tracks.clone().filter_map(|track| track.process.as_ref());
        let threads = tracks.filter_map(|track| track.thread.as_ref());
        let threads: BTreeSet<_> = threads.map(|it| (it.pid(), it.tid())).collect();
        let mut pids: BTreeSet<_> = processes.map(ProcessDescriptor::pid).collect();
        pids.extend(threads.iter().map(|(pid, _)| pid));
        let of_tracks = pids.clone();

        // A process has the numbers that its tracks have. These may be those of its own namespace. If
        // another process has them in the initial one, the tracks are taken for that one's.
        let ids = |pid: i32, tid: i32| match listing.own_ids(pid, tid) {
            Some(own) if of_tracks.contains(&own.0) && !listing.processes.contains_key(&own.0) => {
                own
            }
            _ => (pid, tid),
        };
        let mut rows = Self {
            pids,
            threads: threads
                .iter()
                .map(|(pid, tid)| (Some(*pid), *tid))
                .collect(),
            kernel_tids: Vec::new(),
        };
        for thread in &kernel.threads {
            let ids = match thread.pid {
                Some(pid) => {
                    let (pid, tid) = ids(pid, thread.tid);
                    (Some(pid), tid)
                }
                // The process is that of a track with the thread's number.
                None => {
                    let mut tracks = threads.iter();
                    let track = tracks.find(|(_, tid)| *tid == thread.tid);
                    (track.map(|(pid, _)| *pid), thread.tid)
                }
            };
            rows.add(ids.0, ids.1);
            rows.kernel_tids.push(ids.1);
        }
        for pid in listing.processes.keys() {
            rows.pids.insert(ids(*pid, *pid).0);
        }
        for (tid, thread) in &listing.threads {
            let (pid, tid) = ids(thread.pid, *tid);
            rows.add(Some(pid), tid);
        }
        rows
    }

    fn add(&mut self, pid: Option<i32>, tid: i32) {
        self.pids.extend(pid);
        self.threads.insert((pid, tid));
    }

    /// Returns the numbers of processes.
    pub(super) fn processes(&self) -> Json {
        self.pids.iter().map(|pid| json!([pid])).collect()
    }

    /// Returns the numbers of threads, with those of their processes.
    pub(super) fn threads(&self) -> Json {
        let threads = self.threads.iter();
        threads.map(|(pid, tid)| json!([pid, tid])).collect()
    }

    /// Returns the numbers of the threads that the kernel's events mention.
    pub(super) fn kernel_tids(&self) -> &[i32] {
        &self.kernel_tids
    }
}
