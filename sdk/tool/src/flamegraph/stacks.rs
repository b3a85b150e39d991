//! Nested spans as trees, with the time spent in each stack.

use std::collections::{BTreeSet, HashMap};

use tracezero_reader::{EventHead, NameId, NameTable, TrackId, TrackKind, TrackTable};

use crate::stacks::{NodeId, StackTrees, folded_frame};
use crate::tracks::{SpanPlace, TrackPath, TrackPaths};

/// The maximum size of all lines together. Further stacks are left out.
const MAX_LINE_BYTES: usize = 256 << 20;

/// The self time of each stack.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// Nanoseconds by stack. The root of a tree is a track, or the first of several with the same name.
    trees: StackTrees<TrackId, u64>,
    roots: HashMap<RootKey, NodeId>,
}

/// Selects the tracks whose stacks are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drawn<'a> {
    Threads,
    AllTracks,
    /// Threads and other tracks with this name, with or without the thread's id, and all tracks of a
    /// process with this name.
    TracksCalled(&'a str),
}

/// The stacks as lines of text.
#[derive(Debug)]
pub(super) struct Folded<'n> {
    pub(super) lines: Vec<String>,
    /// The number of stacks that are not drawn because they are not on threads.
    pub(super) on_other_tracks: u64,
    /// The names of tracks that have stacks but are not drawn, because of their name.
    pub(super) other_titles: BTreeSet<&'n str>,
    /// The number of stacks that have no line, for want of room.
    pub(super) left_out: u64,
}

/// The key of a tree. Threads, processes and unnamed tracks each have their own tree. Other tracks
/// of the same name and parent share a tree, because a program may use a new track for each of very
/// many operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RootKey {
    Track(TrackId),
    Named(NameId, Option<TrackId>),
}

impl Stacks {
    /// Returns the stack of a span that begins. `parent` is the stack around it, if any.
    pub(super) fn begin(
        &mut self,
        span: &EventHead,
        parent: Option<NodeId>,
        tracks: &TrackTable,
    ) -> NodeId {
        let parent = parent.unwrap_or_else(|| self.root(span.track, tracks));
        self.trees.child(parent, span.name)
    }

    pub(super) fn end(&mut self, stack: NodeId, self_ns: u64) {
        let total_ns = self.trees.value_mut(stack);
        *total_ns = total_ns.saturating_add(self_ns);
    }

    /// Returns the number of spans whose time counts for the stack around them, because of a limit.
    pub(super) const fn left_out(&self) -> u64 {
        self.trees.left_out()
    }

    fn root(&mut self, id: TrackId, tracks: &TrackTable) -> NodeId {
        let track = tracks.track(id);
        let key = match track.kind {
            _ if track.name.is_none() => RootKey::Track(id),
            TrackKind::Thread { .. } | TrackKind::Process { .. } => RootKey::Track(id),
            _ => RootKey::Named(track.name, track.parent),
        };
        if let Some(known) = self.roots.get(&key) {
            return *known;
        }
        let node = self.trees.add_root(id);
        self.roots.insert(key, node);
        node
    }

    /// Formats a line for each stack that took time: its frames from the outside in, and
    /// nanoseconds. Without tracks, equal stacks of all tracks become one line.
    pub(super) fn folded<'n>(
        &self,
        drawn: Drawn<'_>,
        with_tracks: bool,
        tracks: &TrackTable,
        names: &'n NameTable,
    ) -> Folded<'n> {
        let mut times: HashMap<String, u64> = HashMap::new();
        let mut room_bytes = MAX_LINE_BYTES;
        let (mut left_out, mut on_other_tracks) = (0, 0);
        let mut other_titles = BTreeSet::new();
        let mut labels: HashMap<TrackId, String> = HashMap::new();
        let paths = TrackPaths::new(tracks, names);
        for node in self.trees.iter() {
            let self_ns = *self.trees.value(node);
            if self_ns == 0 {
                continue;
            }
            let (root, path) = self.trees.path(node);
            let is_drawn = match drawn {
                Drawn::Threads => SpanPlace::of(tracks.track(root)) == SpanPlace::Thread,
                Drawn::AllTracks => true,
                Drawn::TracksCalled(name) => is_called(name, root, tracks, names, &paths),
            };
            if !is_drawn {
                match drawn {
                    Drawn::Threads => on_other_tracks += 1,
                    Drawn::AllTracks | Drawn::TracksCalled(_) => {
                        other_titles.insert(tracks.title(root, names));
                    }
                }
                continue;
            }
            let mut line = String::new();
            if with_tracks {
                let label = labels.entry(root).or_insert_with(|| label(paths.of(root)));
                line.push_str(label);
            }
            for name in path.iter().rev() {
                if !line.is_empty() {
                    line.push(';');
                }
                line.push_str(&folded_frame(names.text(*name)));
            }
            if let Some(time_ns) = times.get_mut(&line) {
                *time_ns = time_ns.saturating_add(self_ns);
            } else if let Some(rest) = room_bytes.checked_sub(line.len()) {
                room_bytes = rest;
                times.insert(line, self_ns);
            } else {
                left_out += 1;
            }
        }
        let times = times.into_iter();
        let mut lines: Vec<String> = times
            .map(|(mut stack, self_ns)| {
                stack.push_str(&format!(" {self_ns}"));
                stack
            })
            .collect();
        lines.sort_unstable();
        Folded {
            lines,
            on_other_tracks,
            other_titles,
            left_out,
        }
    }
}

fn label(TrackPath { process, track }: TrackPath) -> String {
    match process.as_str() {
        "" => folded_frame(&track),
        process => format!("{};{}", folded_frame(process), folded_frame(&track)),
    }
}

/// Returns true if this is a name of a track or of its process, as this command or `summary` prints it.
fn is_called(
    name: &str,
    track: TrackId,
    tracks: &TrackTable,
    names: &NameTable,
    paths: &TrackPaths<'_>,
) -> bool {
    if tracks.title(track, names) == name {
        return true;
    }
    let path = paths.of(track);
    path.track == name || path.process == name
}
