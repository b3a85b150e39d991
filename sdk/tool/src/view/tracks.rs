//! Describes the tracks of a trace for a page.

use std::collections::HashMap;

use tracezero_core::protos::counter_descriptor::Unit;
use tracezero_core::protos::track_descriptor::ChildTracksOrdering;
use tracezero_reader::{Counter, NameTable, TrackId, TrackKind, TrackTable};

use super::timeline::Track;

/// The maximum size of a name. Longer ones are cut.
const NAME_MAX_BYTES: usize = 1024;

/// The tracks of processes, by machine and process id.
type Processes = HashMap<(u32, i32), TrackId>;

/// Returns the descriptions of all tracks, in the order of their ids.
pub(crate) fn describe(table: &TrackTable, names: &NameTable) -> Vec<Track> {
    let processes = table.iter().filter_map(|(id, track)| match track.kind {
        // Only a process without a parent: one under its own thread would make a cycle.
        TrackKind::Process { pid, .. } if track.parent.is_none() => {
            Some(((track.machine_id, pid), id))
        }
        _ => None,
    });
    let processes: Processes = processes.collect();
    let all = table.iter();
    all.map(|(id, _)| describe_one(table, names, &processes, id))
        .collect()
}

fn describe_one(
    table: &TrackTable,
    names: &NameTable,
    processes: &Processes,
    id: TrackId,
) -> Track {
    let track = table.track(id);
    let title = table.title(id, names);
    let mut described = Track {
        parent: parent_of(table, processes, id).map(|parent| parent.index() as u32),
        order: order_of(track),
        rank: track.sibling_order_rank,
        ..Track::default()
    };
    let fallback = match &track.kind {
        TrackKind::Process { pid, .. } => {
            described.kind = "process";
            described.pid = Some(*pid);
            format!("process {pid}")
        }
        TrackKind::Thread { pid, tid, .. } => {
            described.kind = "thread";
            described.pid = Some(*pid);
            described.tid = Some(*tid);
            format!("thread {tid}")
        }
        TrackKind::Counter(counter) => {
            described.kind = "counter";
            described.unit = unit_of(counter, names);
            "counter".to_owned()
        }
        _ => {
            described.kind = "track";
            match track.uuid {
                0 => "(no track)".to_owned(),
                uuid => format!("track {uuid:#x}"),
            }
        }
    };
    described.name = if title.is_empty() {
        fallback
    } else {
        title[..title.floor_char_boundary(NAME_MAX_BYTES)].to_owned()
    };
    described
}

/// Returns the parent of a track, or the track of a thread's process. Returns `None` if the parents
/// form a cycle.
fn parent_of(table: &TrackTable, processes: &Processes, id: TrackId) -> Option<TrackId> {
    let track = table.track(id);
    if track.parent.is_some() {
        let is_bounded = table.ancestry(id).count() < TrackTable::PARENTS_MAX;
        return track.parent.filter(|_| is_bounded);
    }
    match track.kind {
        TrackKind::Thread { pid, .. } => processes.get(&(track.machine_id, pid)).copied(),
        _ => None,
    }
}

/// Returns the order of the tracks below, as the descriptor defines it.
fn order_of(track: &tracezero_reader::Track) -> Option<&'static str> {
    match track.child_ordering {
        ChildTracksOrdering::LEXICOGRAPHIC => Some("name"),
        ChildTracksOrdering::CHRONOLOGICAL => Some("time"),
        ChildTracksOrdering::EXPLICIT => Some("rank"),
        _ => None,
    }
}

fn unit_of(counter: &Counter, names: &NameTable) -> Option<String> {
    let name = names.text(counter.unit_name);
    if !name.is_empty() {
        let name = &name[..name.floor_char_boundary(NAME_MAX_BYTES)];
        return Some(name.to_owned());
    }
    match counter.unit {
        Unit::TIME_NS => Some("ns".to_owned()),
        Unit::SIZE_BYTES => Some("bytes".to_owned()),
        _ => None,
    }
}
