//! Joins the tracks of threads with the threads of the kernel.

use std::collections::HashMap;

use tracezero_reader::kernel::{KernelTimelines, ThreadId};
use tracezero_reader::{NameTable, TrackId, TrackKind, TrackTable};

use super::span_log::SpanLog;
use crate::tracks::TrackPaths;

/// The threads of a trace, with their tracks.
#[derive(Debug)]
pub(crate) struct Threads<'t> {
    timelines: &'t KernelTimelines,
    paths: TrackPaths<'t>,
    of_track: HashMap<TrackId, ThreadId>,
    tracks: HashMap<ThreadId, TrackId>,
}

/// The name of a thread and that of its process, each with its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThreadName {
    pub(crate) process: String,
    pub(crate) thread: String,
}

impl ThreadName {
    /// Formats a thread with its process, if that is known and another one.
    pub(crate) fn of_process(&self) -> String {
        match self.process.is_empty() || self.process == self.thread {
            true => self.thread.clone(),
            false => format!("{} of {}", self.thread, self.process),
        }
    }
}

impl<'t> Threads<'t> {
    pub(crate) fn new(
        timelines: &'t KernelTimelines,
        log: &SpanLog,
        tracks: &'t TrackTable,
        names: &'t NameTable,
    ) -> Self {
        let mut found = Self {
            timelines,
            paths: TrackPaths::new(tracks, names),
            of_track: HashMap::new(),
            tracks: HashMap::new(),
        };
        for track in log.tracks() {
            let first = log.on(track).first();
            let described = tracks.track(track);
            if let TrackKind::Thread { pid, tid, .. } = described.kind
                // The timelines are those of the service's machine.
                && described.machine_id == 0
                && let Some(first) = first
                && let Some(thread) = timelines.find_thread(pid, tid, first.begin_ns)
            {
                found.of_track.insert(track, thread);
                found.tracks.insert(thread, track);
            }
        }
        found
    }

    /// Returns the thread of a track, if the track is that of a thread that the kernel has told of.
    pub(crate) fn of_track(&self, track: TrackId) -> Option<ThreadId> {
        self.of_track.get(&track).copied()
    }

    /// Returns the track of a thread that has spans.
    pub(crate) fn track_of(&self, thread: ThreadId) -> Option<TrackId> {
        self.tracks.get(&thread).copied()
    }

    /// Returns the name of a thread: that of its track if it has one.
    pub(crate) fn name(&self, id: ThreadId) -> ThreadName {
        if let Some(track) = self.track_of(id) {
            return self.track_name(track);
        }
        let Some(thread) = self.timelines.thread(id) else {
            return ThreadName::default();
        };
        let names = self.timelines.names();
        let numbered = |name: &str, number: i32| match name {
            "" => number.to_string(),
            name => format!("{name} {number}"),
        };
        let process = thread
            .pid
            .map(|pid| numbered(names.text(thread.process_name), pid));
        ThreadName {
            process: process.unwrap_or_default(),
            thread: numbered(names.text(thread.name), thread.tid),
        }
    }

    /// Returns the name of a track.
    pub(crate) fn track_name(&self, track: TrackId) -> ThreadName {
        let path = self.paths.of(track);
        ThreadName {
            process: path.process,
            thread: path.track,
        }
    }
}
