//! Names of tracks, and whether spans are on threads.

use std::collections::HashMap;

use tracezero_reader::{NameTable, Track, TrackId, TrackKind, TrackTable};

/// The kind of track that a span is on. A future has spans of both kinds: its polls are on threads,
/// and the span of the whole future, which is mostly a time of waiting, is on a track of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SpanPlace {
    /// On the track of a thread.
    Thread,
    /// On any other track.
    Track,
}

impl SpanPlace {
    #[inline]
    pub(crate) const fn of(track: &Track) -> Self {
        match track.kind {
            TrackKind::Thread { .. } => Self::Thread,
            _ => Self::Track,
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Track => "track",
        }
    }
}

/// Finds the path of each track of a trace.
#[derive(Debug)]
pub(crate) struct TrackPaths<'t> {
    tracks: &'t TrackTable,
    names: &'t NameTable,
    /// The first track of each process. Needed because the track of a thread need not be below the
    /// track of its process. By machine and process id.
    processes: HashMap<(u32, i32), TrackId>,
}

/// The path of a track.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TrackPath {
    /// The name and id of the process that the track belongs to, and its machine if it is not that
    /// of the service. Empty if the track belongs to no process.
    pub(crate) process: String,
    /// The names of the tracks between the process and this track, and the name of this track.
    pub(crate) track: String,
}

impl<'t> TrackPaths<'t> {
    pub(crate) fn new(tracks: &'t TrackTable, names: &'t NameTable) -> Self {
        let mut processes = HashMap::new();
        for (id, track) in tracks.iter() {
            if let TrackKind::Process { pid, .. } = track.kind {
                processes.entry((track.machine_id, pid)).or_insert(id);
            }
        }
        Self {
            tracks,
            names,
            processes,
        }
    }

    /// Returns the path of a track.
    pub(crate) fn of(&self, id: TrackId) -> TrackPath {
        let mut process = String::new();
        let mut path = Vec::new();
        let mut process_of_thread = None;
        for (above, track) in self.tracks.ancestry(id) {
            let title = self.tracks.title(above, self.names);
            match track.kind {
                TrackKind::Process { pid, .. } => {
                    process = on_machine(join(title, pid), track.machine_id);
                    break;
                }
                TrackKind::Thread { pid, tid, .. } => {
                    process_of_thread = Some((track.machine_id, pid));
                    path.push(join(title, tid));
                }
                _ if title.is_empty() && track.uuid == 0 => path.push("(no track)".to_owned()),
                _ if title.is_empty() => path.push(format!("({:#x})", track.uuid)),
                _ => path.push(title.to_owned()),
            }
        }
        if process.is_empty()
            && let Some(key @ (machine_id, pid)) = process_of_thread
        {
            let found = self.processes.get(&key);
            let title = found.map(|id| self.tracks.title(*id, self.names));
            process = on_machine(join(title.unwrap_or_default(), pid), machine_id);
        }
        path.reverse();
        let track = match path.is_empty() {
            true => "(process)".to_owned(),
            false => path.join(" / "),
        };
        TrackPath { process, track }
    }
}

/// Adds the machine to the name of a process, unless it is that of the service.
fn on_machine(process: String, machine_id: u32) -> String {
    match machine_id {
        0 => process,
        id => format!("{process} (machine {id})"),
    }
}

fn join(title: &str, id: i32) -> String {
    match title {
        "" => id.to_string(),
        title => format!("{title} {id}"),
    }
}
