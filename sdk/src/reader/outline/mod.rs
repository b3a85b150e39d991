//! What happened in a trace, as a text that is the same for every run that does the same.
//!
//! No times, no ids of processes and threads, no addresses; and no order but that within a track, since
//! that of threads is chance. Siblings that are alike, with all that is inside of them, are one line with
//! a count. So memory goes by how much different there is in a trace, up to a limit, and not by its
//! length.

mod tree; // one track
mod counter; // one counter

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io::Read;

use self::counter::Values;
use self::tree::{Budget, Kind, Text, Tree, indent};
use super::args::Args;
use super::damage::Damage;
use super::error::ReadError;
use super::event::{Event, EventKind};
use super::in_order::InOrder;
use super::names::NameTable;
use super::record::Record;
use super::trace_reader::TraceReader;
use super::tracks::{TrackId, TrackKind, TrackTable};
use super::value::Value;
use crate::track_event::CounterValue;

/// Lines that an outline may have.
const NODES_MAX: usize = 1 << 20;

/// Events that are held back so that those of other sequences can come before them.
const HELD_BACK_MAX: usize = 1 << 16;
/// Text of all of them.
const HELD_BACK_MAX_BYTES: usize = 64 << 20;

/// Longer names and arguments of an event are cut.
const TEXT_MAX_BYTES: usize = 4096;

/// Fields of such packets that are told apart.
const PACKET_FIELDS_MAX: usize = 1000;

/// Packets with other data are counted from this field of `TracePacket` on: those before are the
/// service's own, and what tracing in other places than applications writes.
const FIRST_COUNTED_FIELD: u32 = 900;

/// A trace as a text without what differs between two runs. Printed, each line ends with a line feed.
///
/// ```text
/// thread "main"
///   read key="k"
///     disk_read bytes=4096 x2
///     * cached
/// thread "worker" x3
///   job
/// counter "queue": 1 2 1 0
/// ```
///
/// Spans are indented by what they are in; `*` stands before an instant. Threads and tracks that are
/// alike are one, too. A process is named only if there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    text: String,
}

impl Outline {
    /// Outlines all that `reader` has not read yet.
    ///
    /// # Errors
    ///
    /// As [`TraceReader::next`].
    pub fn read<R: Read>(reader: &mut TraceReader<R>) -> Result<Self, ReadError> {
        Self::read_all(reader, None, |_| {})
    }

    /// The same of a trace that may be damaged: `report` is called for each damage.
    ///
    /// # Errors
    ///
    /// As [`TraceReader::next`].
    pub fn read_reporting<R: Read>(
        reader: &mut TraceReader<R>,
        report: impl FnMut(&Damage),
    ) -> Result<Self, ReadError> {
        Self::read_all(reader, None, report)
    }

    /// The same, with the thread of this id called "this thread", whatever its name.
    #[cfg(feature = "testing")]
    pub(crate) fn with_thread<R: Read>(
        reader: &mut TraceReader<R>,
        this_thread: Option<i32>,
    ) -> Result<Self, ReadError> {
        Self::read_all(reader, this_thread, |_| {})
    }

    fn read_all<R: Read>(
        reader: &mut TraceReader<R>,
        this_thread: Option<i32>,
        mut report: impl FnMut(&Damage),
    ) -> Result<Self, ReadError> {
        let mut builder = Builder {
            this_thread,
            ..Builder::default()
        };
        while let Some(record) = reader.next()? {
            match record {
                Record::Event(event) => builder.event(&event),
                Record::Packet(other) => {
                    let field = other.packet.payload().map_or(0, |payload| payload.field);
                    if field >= FIRST_COUNTED_FIELD {
                        builder.packet(field);
                    }
                }
                Record::Damage(damage) => report(&damage),
                _ => {}
            }
        }
        Ok(builder.finish(reader.tracks(), reader.names()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Builder {
    in_order: InOrder<(TrackId, Change)>,
    /// Text of what is held back.
    held_back_bytes: usize,
    /// By track id.
    tracks: Vec<TrackContents>,
    budget: Budget,
    /// Packets with other data, by field.
    packets: BTreeMap<u32, u64>,
    /// Those with a field for which there was no room.
    more_packets: u64,
    this_thread: Option<i32>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            in_order: InOrder::new(HELD_BACK_MAX),
            held_back_bytes: 0,
            tracks: Vec::new(),
            budget: Budget::new(NODES_MAX),
            packets: BTreeMap::new(),
            more_packets: 0,
            this_thread: None,
        }
    }
}

#[derive(Debug, Default)]
struct TrackContents {
    tree: Tree,
    values: Values,
}

/// What an event does to its track.
#[derive(Debug)]
enum Change {
    Begin(Text),
    End { args: String },
    Whole(Text),
    Instant(Text),
    Count(CounterValue),
}

impl Change {
    const fn text_bytes(&self) -> usize {
        match self {
            Self::Begin(text) | Self::Whole(text) | Self::Instant(text) => {
                text.name.len() + text.args.len()
            }
            Self::End { args } => args.len(),
            Self::Count(_) => 0,
        }
    }
}

impl Builder {
    fn event(&mut self, event: &Event<'_>) {
        let text = || Text {
            name: cut(event.name().to_owned()),
            args: cut(args_text(event.args())),
        };
        let change = match event.kind {
            EventKind::SliceBegin => Change::Begin(text()),
            EventKind::SliceEnd => Change::End { args: text().args },
            EventKind::Slice { .. } => Change::Whole(text()),
            EventKind::Instant => Change::Instant(text()),
            EventKind::Counter(value) => Change::Count(value),
        };
        self.held_back_bytes += change.text_bytes();
        let due = self
            .in_order
            .push(event.timestamp_ns, (event.track, change));
        if let Some((track, change)) = due {
            self.apply(track, change);
        }
        while self.held_back_bytes > HELD_BACK_MAX_BYTES
            && let Some((track, change)) = self.in_order.pop()
        {
            self.apply(track, change);
        }
    }

    /// A packet with other data.
    fn packet(&mut self, field: u32) {
        if self.packets.len() < PACKET_FIELDS_MAX || self.packets.contains_key(&field) {
            *self.packets.entry(field).or_default() += 1;
        } else {
            self.more_packets += 1;
        }
    }

    fn apply(&mut self, track: TrackId, change: Change) {
        self.held_back_bytes -= change.text_bytes();
        if self.tracks.len() <= track.index() {
            self.tracks
                .resize_with(track.index() + 1, TrackContents::default);
        }
        let TrackContents { tree, values } = &mut self.tracks[track.index()];
        let budget = &mut self.budget;
        match change {
            Change::Begin(text) => tree.begin(text, budget),
            Change::End { args } => tree.end(&args, budget),
            Change::Whole(text) => {
                tree.begin(text, budget);
                tree.end("", budget);
            }
            Change::Instant(text) => tree.add_leaf(Kind::Instant, text, budget),
            Change::Count(value) => values.add(value),
        }
    }

    fn finish(mut self, tracks: &TrackTable, names: &NameTable) -> Outline {
        while let Some((track, change)) = self.in_order.pop() {
            self.apply(track, change);
        }
        for contents in &mut self.tracks {
            contents.tree.finish(&mut self.budget);
        }
        let mut blocks = Blocks {
            builder: &self,
            tracks,
            names,
            children: children(tracks),
        }
        .of(None, 0);
        let is_process = |block: &Block| block.rank == Rank::Process;
        let text = match blocks.iter().filter(|block| is_process(block)).count() {
            // The only one needs no name.
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
        };
        let mut outline = Outline { text };
        for (field, count) in self.packets {
            // Writing to a string does not fail.
            let _ = writeln!(outline.text, "packets with field {field}: {count}");
        }
        if self.more_packets > 0 {
            let count = self.more_packets;
            let _ = writeln!(outline.text, "packets with more fields: {count}");
        }
        outline
    }
}

/// The arguments as a text, with a space before each.
fn args_text(args: Args<'_>) -> String {
    let mut text = String::new();
    for arg in args {
        // Writing to a string does not fail.
        let _ = write!(text, " {}={:#}", arg.name, Value::from(arg.value));
    }
    text
}

/// As much of a text as is shown.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX_BYTES {
        text.truncate(text.floor_char_boundary(TEXT_MAX_BYTES));
        text.push_str("..");
        text.shrink_to_fit();
    }
    text
}

/// The tracks under each track, or under none.
fn children(tracks: &TrackTable) -> BTreeMap<Option<TrackId>, Vec<TrackId>> {
    let mut processes = BTreeMap::new();
    for (id, track) in tracks.iter() {
        if let TrackKind::Process { pid, .. } = track.kind {
            processes.entry(pid).or_insert(id);
        }
    }
    let mut children: BTreeMap<Option<TrackId>, Vec<TrackId>> = BTreeMap::new();
    for (id, track) in tracks.iter() {
        let of_process = match track.kind {
            TrackKind::Thread { pid, .. } => processes.get(&pid).copied(),
            _ => None,
        };
        children
            .entry(track.parent.or(of_process))
            .or_default()
            .push(id);
    }
    children
}

/// A track with all that is under it, as a text.
#[derive(Debug)]
struct Block {
    rank: Rank,
    label: String,
    /// What is on the track itself, not indented.
    own: String,
    nested: Vec<Block>,
}

/// Which tracks come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    ThisThread,
    Process,
    Thread,
    Track,
    Counter,
}

struct Blocks<'b> {
    builder: &'b Builder,
    tracks: &'b TrackTable,
    names: &'b NameTable,
    children: BTreeMap<Option<TrackId>, Vec<TrackId>>,
}

impl Blocks<'_> {
    /// The tracks under `parent` that have anything on them, or below.
    fn of(&self, parent: Option<TrackId>, depth: usize) -> Vec<Block> {
        // What goes round in circles is under no root; what is too deep is left out.
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
            TrackKind::Thread { tid, .. } if Some(*tid) == self.builder.this_thread => {
                (Rank::ThisThread, "this thread".to_owned())
            }
            TrackKind::Thread { .. } => (Rank::Thread, named("thread")),
            TrackKind::Counter(_) => (Rank::Counter, named("counter")),
            TrackKind::Plain => (Rank::Track, named("track")),
        };
        let mut own = String::new();
        let mut is_empty = true;
        if let Some(contents) = self.builder.tracks.get(id.index()) {
            contents.tree.write(0, &mut own);
            is_empty = own.is_empty() && contents.values.is_empty();
            if !contents.values.is_empty() {
                // Writing to a string does not fail.
                let _ = write!(label, ": {}", contents.values);
            }
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

/// One below the other, by name; those that are alike once.
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
