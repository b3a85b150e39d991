//! Prints the tracks of a trace, with their contents.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::counter::Values;
use super::forest::Forest;
use super::tree::indent;
use crate::names::NameTable;
use crate::tracks::{TrackId, TrackKind, TrackTable};

/// The contents of all tracks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contents<'c> {
    pub(super) forest: &'c Forest,
    /// The values of counters, by track id.
    pub(super) values: &'c [Values],
    /// The id of the thread that is called "this thread".
    pub(super) this_thread: Option<i32>,
}

/// Prints all tracks that have content, on themselves or on a track below.
pub(super) fn text_of(contents: Contents<'_>, tracks: &TrackTable, names: &NameTable) -> String {
    let mut blocks = Blocks {
        contents,
        tracks,
        names,
        children: children(tracks),
    }
    .of(None, 0);
    let is_process = |block: &Block| block.rank == Rank::Process;
    match blocks.iter().filter(|block| is_process(block)).count() {
        // A single process needs no name.
        1 => {
            let process = blocks.iter().position(is_process).unwrap_or_default();
            let Block { own, nested, .. } = blocks.remove(process);
            if !own.is_empty() {
                blocks.push(Block {
                    rank: Rank::Process,
                    label: "process".to_owned(),
                    own,
                    nested: Vec::new(),
                });
            }
            blocks.extend(nested);
            write_blocks(blocks, 0)
        }
        _ => write_blocks(blocks, 0),
    }
}

/// Returns the child tracks of each track, and the tracks without a parent. Threads without a
/// parent are under their process.
fn children(tracks: &TrackTable) -> BTreeMap<Option<TrackId>, Vec<TrackId>> {
    let mut processes = BTreeMap::new();
    for (id, track) in tracks.iter() {
        if let TrackKind::Process { pid, .. } = track.kind {
            processes.entry((track.machine_id, pid)).or_insert(id);
        }
    }
    let mut children: BTreeMap<Option<TrackId>, Vec<TrackId>> = BTreeMap::new();
    for (id, track) in tracks.iter() {
        let of_process = match track.kind {
            TrackKind::Thread { pid, .. } => processes.get(&(track.machine_id, pid)).copied(),
            _ => None,
        };
        children
            .entry(track.parent.or(of_process))
            .or_default()
            .push(id);
    }
    children
}

/// A track with everything under it, as text.
#[derive(Debug)]
struct Block {
    rank: Rank,
    label: String,
    /// The content of the track itself, not indented.
    own: String,
    nested: Vec<Block>,
}

/// The order of tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    ThisThread,
    Process,
    Thread,
    Track,
    Counter,
}

struct Blocks<'b> {
    contents: Contents<'b>,
    tracks: &'b TrackTable,
    names: &'b NameTable,
    children: BTreeMap<Option<TrackId>, Vec<TrackId>>,
}

impl Blocks<'_> {
    /// Returns the tracks under `parent` that have content, on themselves or on a track below.
    fn of(&self, parent: Option<TrackId>, depth: usize) -> Vec<Block> {
        // Tracks that are too deep are left out. Cycles of parents are never reached from a root.
        if depth > TrackTable::PARENTS_MAX {
            return Vec::new();
        }
        let children = self.children.get(&parent).map_or(&[][..], Vec::as_slice);
        children
            .iter()
            .filter_map(|&id| self.block(id, depth))
            .collect()
    }

    fn block(&self, id: TrackId, depth: usize) -> Option<Block> {
        let title = self.tracks.title(id, self.names);
        let named = |kind: &str| match title {
            "" => kind.to_owned(),
            name => format!("{kind} {name:?}"),
        };
        let (rank, mut label) = match &self.tracks.track(id).kind {
            TrackKind::Process { .. } => (Rank::Process, named("process")),
            TrackKind::Thread { tid, .. } if Some(*tid) == self.contents.this_thread => {
                (Rank::ThisThread, "this thread".to_owned())
            }
            TrackKind::Thread { .. } => (Rank::Thread, named("thread")),
            TrackKind::Counter(_) => (Rank::Counter, named("counter")),
            TrackKind::Plain => (Rank::Track, named("track")),
        };
        let mut own = String::new();
        self.contents.forest.write(id, &mut own);
        let values = self.contents.values.get(id.index());
        let values = values.filter(|values| !values.is_empty());
        let is_empty = own.is_empty() && values.is_none();
        if let Some(values) = values {
            // Writing to a string does not fail.
            let _ = write!(label, ": {values}");
        }
        let nested = self.of(Some(id), depth + 1);
        (!is_empty || !nested.is_empty()).then_some(Block {
            rank,
            label,
            own,
            nested,
        })
    }
}

/// Prints blocks sorted by rank and label. Equal blocks become one, with a count.
fn write_blocks(blocks: Vec<Block>, depth: usize) -> String {
    let mut written: Vec<(Rank, String, String)> = blocks
        .into_iter()
        .map(|block| {
            let mut below = String::new();
            for line in block.own.lines() {
                indent(depth + 1, &mut below);
                below.push_str(line);
                below.push('\n');
            }
            below.push_str(&write_blocks(block.nested, depth + 1));
            (block.rank, block.label, below)
        })
        .collect();
    written.sort();
    let mut out = String::new();
    for alike in written.chunk_by(|left, right| left == right) {
        let (_, label, below) = &alike[0];
        indent(depth, &mut out);
        out.push_str(label);
        if alike.len() > 1 {
            // Writing to a string does not fail.
            let _ = write!(out, " x{}", alike.len());
        }
        out.push('\n');
        out.push_str(below);
    }
    out
}
