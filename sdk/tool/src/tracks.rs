//! What to call the tracks of a trace, and what is on threads.

use tracezero::reader::{NameTable, Track, TrackId, TrackKind, TrackTable};

/// Where spans are. Those of a future are in both places: its polls on threads, its life on a track of
/// its own, most of which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// Where a track is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TrackPath {
    /// Name and id of its process; empty if it has none.
    pub(crate) process: String,
    /// Its name below that, after those of the tracks around it.
    pub(crate) track: String,
}

impl TrackPath {
    pub(crate) fn of(id: TrackId, tracks: &TrackTable, names: &NameTable) -> Self {
        let mut process = String::new();
        let mut path = Vec::new();
        let mut pid_of_thread = None;
        for (above, track) in tracks.ancestry(id) {
            let title = tracks.title(above, names);
            match track.kind {
                TrackKind::Process { pid, .. } => {
                    process = join(title, pid);
                    break;
                }
                TrackKind::Thread { pid, tid, .. } => {
                    pid_of_thread = Some(pid);
                    path.push(join(title, tid));
                }
                _ if title.is_empty() && track.uuid == 0 => path.push("(no track)".to_owned()),
                _ if title.is_empty() => path.push(format!("({:#x})", track.uuid)),
                _ => path.push(title.to_owned()),
            }
        }
        if process.is_empty()
            && let Some(pid) = pid_of_thread
        {
            process = name_of_process(pid, tracks, names);
        }
        path.reverse();
        let track = match path.is_empty() {
            true => "(process)".to_owned(),
            false => path.join(" / "),
        };
        Self { process, track }
    }
}

/// The process of a thread, which need not be above it.
fn name_of_process(pid: i32, tracks: &TrackTable, names: &NameTable) -> String {
    let found = tracks.iter().find(
        |(_, track)| matches!(track.kind, TrackKind::Process { pid: other, .. } if other == pid),
    );
    let title = found.map(|(id, _)| tracks.title(id, names));
    join(title.unwrap_or_default(), pid)
}

fn join(title: &str, id: i32) -> String {
    match title {
        "" => id.to_string(),
        title => format!("{title} {id}"),
    }
}
