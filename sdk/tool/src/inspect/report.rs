//! Prints the tree of open spans.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use tracezero_core::clock;
use tracezero_reader::{TrackId, TrackKind};

use super::open_span::OpenSpan;
use super::process::ProcessInfo;
use super::spans::OpenSpans;
use crate::table::printable;
use crate::tracks::TrackPaths;
use crate::units::{duration, plural};

/// The width of the column with ages.
const AGE_WIDTH: usize = 9;

/// The depth up to which spans are indented.
const INDENT_MAX: usize = 100;

/// The report of one session.
pub(super) struct Report<'a> {
    spans: &'a OpenSpans,
    info: &'a ProcessInfo,
    /// The number of packets that a ring has overwritten.
    overwritten: u64,
    now_ns: u64,
}

impl<'a> Report<'a> {
    pub(super) fn new(spans: &'a OpenSpans, info: &'a ProcessInfo, overwritten: u64) -> Self {
        Self {
            spans,
            info,
            overwritten,
            now_ns: clock::now_ns(),
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        match self.spans.times_ns {
            None => writeln!(out, "the trace has no events"),
            Some((first_ns, last_ns)) => writeln!(
                out,
                "{} in {}, the last one {} ago",
                plural(self.spans.events, "event"),
                duration(last_ns.saturating_sub(first_ns)),
                self.age(last_ns)
            ),
        }?;
        let first_ns = self.spans.times_ns.map_or(0, |(first_ns, _)| first_ns);
        if self.overwritten > 0 {
            writeln!(
                out,
                "the ring has overwritten {}; it has none of those before {} ago",
                plural(self.overwritten, "packet"),
                self.age(first_ns)
            )?;
        }
        self.print_threads(out)?;
        self.print_tracks(out)?;
        if self.spans.left_out > 0 {
            let count = plural(self.spans.left_out, "open span");
            writeln!(
                out,
                "          and {count} that began before the ring's events"
            )?;
        }
        self.print_silent_threads(out)
    }

    fn age(&self, then_ns: u64) -> String {
        duration(self.now_ns.saturating_sub(then_ns))
    }

    fn print_threads(&self, out: &mut impl Write) -> io::Result<()> {
        // The main thread, whose id is that of the process, is first.
        let mut threads = BTreeMap::new();
        for (id, track) in self.spans.tracks.iter() {
            if let TrackKind::Thread { pid, tid, .. } = track.kind {
                threads.insert((tid != pid, tid), id);
            }
        }
        for (&(_, tid), &id) in &threads {
            let state = self.info.thread(tid);
            let open = self.spans.of(id).map_or(&[][..], |track| &track.open);
            if state.is_none() && open.is_empty() {
                continue; // The thread has ended.
            }
            let name = self.spans.tracks.title(id, &self.spans.names);
            write!(out, "\nthread {} ({tid})", printable(name))?;
            if let Some(state) = state {
                write!(out, ": {}", state.as_str())?;
            }
            match self.spans.of(id) {
                Some(track) if open.is_empty() => {
                    writeln!(
                        out,
                        ", no open span; its last event {} ago",
                        self.age(track.last_ns)
                    )?;
                }
                _ => writeln!(out)?,
            }
            for (depth, span) in open.iter().enumerate() {
                self.print_span(out, span, depth, "")?;
            }
        }
        Ok(())
    }

    /// Names the threads that have no events: they recorded none, or the ring has overwritten them.
    fn print_silent_threads(&self, out: &mut impl Write) -> io::Result<()> {
        let tracks = self.spans.tracks.iter();
        let known: BTreeSet<i32> = tracks
            .filter_map(|(_, track)| match track.kind {
                TrackKind::Thread { tid, .. } => Some(tid),
                _ => None,
            })
            .collect();
        let threads = self.info.threads().iter();
        let silent: Vec<String> = threads
            .filter(|(tid, thread)| !known.contains(tid) && !thread.name.starts_with("tracezero"))
            .map(|(tid, thread)| format!("{} ({tid})", printable(&thread.name)))
            .collect();
        if silent.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nno events of {}", silent.join(", "))
    }

    /// Prints the spans of all other tracks: each below the next track around it that has spans.
    fn print_tracks(&self, out: &mut impl Write) -> io::Result<()> {
        let mut children: BTreeMap<Option<TrackId>, Vec<TrackId>> = BTreeMap::new();
        for (id, track) in self.spans.tracks.iter() {
            if !matches!(track.kind, TrackKind::Thread { .. }) && self.has_open(id) {
                let mut above = self.spans.tracks.ancestry(id).skip(1);
                let parent = above.find(|(id, track)| {
                    !matches!(track.kind, TrackKind::Thread { .. }) && self.has_open(*id)
                });
                let parent = parent.map(|(id, _)| id);
                children.entry(parent).or_default().push(id);
            }
        }
        if children.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nfutures and other tracks")?;
        let paths = TrackPaths::new(&self.spans.tracks, &self.spans.names);
        // The parents of a hostile trace may form a circle, which no root leads to.
        let mut rest: Vec<(TrackId, usize)> = Vec::new();
        let push = |rest: &mut Vec<_>, parent: Option<TrackId>, depth| {
            let below = children.get(&parent).into_iter().flatten();
            rest.extend(below.rev().map(|id| (*id, depth)));
        };
        push(&mut rest, None, 0);
        while let Some((id, depth)) = rest.pop() {
            let open = self.spans.of(id).map_or(&[][..], |track| &track.open);
            let title = self.spans.tracks.title(id, &self.spans.names);
            for (inner, span) in open.iter().enumerate() {
                let mut notes = Vec::new();
                if inner == 0 {
                    // The track of a future has the name of its span.
                    if span.name != title {
                        notes.push(format!("track {}", paths.of(id).track));
                    }
                    notes.extend(self.polls(id));
                }
                self.print_span(out, span, depth + inner, &notes.join(", "))?;
            }
            push(&mut rest, Some(id), depth + open.len());
        }
        Ok(())
    }

    fn has_open(&self, id: TrackId) -> bool {
        self.spans
            .of(id)
            .is_some_and(|track| !track.open.is_empty())
    }

    /// Returns what is known of the polls of a future.
    fn polls(&self, id: TrackId) -> Option<String> {
        let uuid = self.spans.tracks.track(id).uuid;
        let polls = self.spans.polls(uuid)?;
        let open = self.spans.of(polls.thread).map_or(&[][..], |it| &it.open);
        let is_being_polled = open.iter().any(|span| span.flow_id == Some(uuid));
        let thread = self.spans.tracks.title(polls.thread, &self.spans.names);
        let count = plural(polls.count, "poll");
        Some(if is_being_polled {
            format!("{count}, being polled on {thread}")
        } else {
            let age = self.age(polls.last_begin_ns);
            format!("{count}, the last one {age} ago on {thread}")
        })
    }

    fn print_span(
        &self,
        out: &mut impl Write,
        span: &OpenSpan,
        depth: usize,
        note: &str,
    ) -> io::Result<()> {
        let age = self.age(span.begin_ns);
        let name = match span.name.as_str() {
            "" => "(no name)".to_owned(),
            name => printable(name),
        };
        let padding = AGE_WIDTH.saturating_sub(age.chars().count());
        write!(
            out,
            "{:padding$}{age}  {:indent$}{name}",
            "",
            "",
            indent = 2 * depth.min(INDENT_MAX)
        )?;
        for text in [&*span.args, note] {
            if !text.is_empty() {
                write!(out, "  {}", printable(text))?;
            }
        }
        writeln!(out)
    }
}
