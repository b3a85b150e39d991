//! What a failed assertion shows of the trace.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem;

use super::event::{Event, Kind};
use super::trace::Trace;

/// Lines of the trace that a message shows.
const LINES_MAX: usize = 60;
/// Events that a message goes into.
pub(super) const EVENTS_MAX: usize = 5;
/// Entries of a list that a message shows.
const ENTRIES_MAX: usize = 20;
/// Characters of one line.
const LINE_MAX: usize = 200;

/// A heading and what is under it.
pub(super) fn list(heading: &str, entries: &[String]) -> String {
    let mut out = format!("{heading}:");
    for entry in entries.iter().take(ENTRIES_MAX) {
        out.push_str("\n    ");
        out.push_str(entry);
    }
    write_rest(entries.len().saturating_sub(ENTRIES_MAX), "    ", &mut out);
    out
}

/// What may be meant by a name that nothing of this kind has, as the end of a sentence. Empty if there is
/// nothing like it.
pub(super) fn similar_name(trace: &Trace, kind: Kind, name: &str) -> String {
    let others = match kind {
        Kind::Span => [Kind::Instant, Kind::Poll],
        Kind::Poll => [Kind::Span, Kind::Instant],
        Kind::Instant => [Kind::Span, Kind::Poll],
    };
    for other in others {
        if trace.names_of(other).contains(name) {
            let article = if other == Kind::Instant { "an" } else { "a" };
            return format!("; there is {article} {other} of this name");
        }
    }
    if let Some(similar) = closest(name, trace.names_of(kind)) {
        return format!("; is it {similar:?}?");
    }
    others
        .into_iter()
        .find_map(|other| {
            let similar = closest(name, trace.names_of(other))?;
            Some(format!("; is it the {other} {similar:?}?"))
        })
        .unwrap_or_default()
}

/// The one of `names` that may be meant, likewise.
pub(super) fn is_it<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    match closest(name, names) {
        Some(similar) => format!("; is it {similar:?}?"),
        None => String::new(),
    }
}

/// Why something may be missing in a capture.
pub(super) fn attach_hint(trace: &Trace) -> &'static str {
    if trace.has_unattached {
        "\nthreads that are attached to no capture traced meanwhile: see `CaptureHandle`"
    } else {
        ""
    }
}

/// The one of `names` that `name` may be a misspelling of.
pub(super) fn closest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let is_part = |other: &str| {
        name.len() >= 3 && other.contains(name) || other.len() >= 3 && name.contains(other)
    };
    names
        .into_iter()
        .map(|other| (distance(name, other), other))
        .filter(|&(changes, other)| {
            let length = name.chars().count().max(other.chars().count());
            changes * 3 <= length || is_part(other)
        })
        .min()
        .map(|(_, closest)| closest)
}

/// How many characters have to be changed, put in or taken out, or exchanged with the next one (optimal
/// string alignment).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    // Distances from the beginnings of `right`, by length: those of all of `left` so far, and before.
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut earlier: Option<(char, Vec<usize>)> = None;
    for (index, from) in left.chars().enumerate() {
        let mut next = vec![index + 1];
        for (column, &to) in right.iter().enumerate() {
            let replaced = row[column] + usize::from(from != to);
            let mut least = replaced.min(next[column] + 1).min(row[column + 1] + 1);
            if let Some((before, row)) = &earlier
                && column > 0
                && (*before, from) == (to, right[column - 1])
            {
                least = least.min(row[column - 1] + 1);
            }
            next.push(least);
        }
        earlier = Some((from, mem::replace(&mut row, next)));
    }
    row[right.len()]
}

/// The trace as a tree, with `marked` events marked. If it is long, only these, what they are inside of,
/// and what is inside of them.
pub(super) fn tree(trace: &Trace, marked: &[Event<'_>]) -> String {
    let marked: BTreeSet<usize> = marked.iter().map(|event| event.index).collect();
    let events = &trace.contents.events;
    let is_short = events.len() <= LINES_MAX;
    let mut shown: BTreeSet<usize> = BTreeSet::new();
    if is_short || marked.is_empty() {
        shown.extend(0..events.len());
    }
    for &index in &marked {
        let event = trace.event(index);
        shown.insert(index);
        // What is around something that is shown is shown.
        let mut ancestors = event.ancestors().map(|around| around.index);
        while ancestors.next().is_some_and(|around| shown.insert(around)) {}
        shown.extend(event.children().map(|inside| inside.index));
    }
    let mut tracks: Vec<(&str, &[usize])> = trace
        .contents
        .tracks
        .iter()
        .map(|track| (track.label.as_str(), track.roots.as_slice()))
        .filter(|(_, roots)| !roots.is_empty())
        .collect();
    tracks.sort_by_key(|(label, _)| *label);
    if tracks.is_empty() {
        return "\n\nthe trace has no spans and no instants".to_owned();
    }
    let mut printer = Printer {
        trace,
        marked,
        shown,
        out: "\n".to_owned(),
        lines: 0,
        left_out: 0,
    };
    for (label, roots) in tracks {
        let has_any = |index: &usize| printer.shown.contains(index);
        if roots.iter().any(has_any) {
            printer.out.push_str("\n  ");
            printer.out.push_str(label);
        }
        printer.trees(roots);
    }
    let Printer {
        mut out, left_out, ..
    } = printer;
    write_rest(left_out, "    ", &mut out);
    out
}

struct Printer<'t> {
    trace: &'t Trace,
    marked: BTreeSet<usize>,
    shown: BTreeSet<usize>,
    out: String,
    lines: usize,
    /// Events that have no line.
    left_out: usize,
}

impl Printer<'_> {
    fn trees(&mut self, roots: &[usize]) {
        // In the order of their lines, the next one last. A trace may nest deeper than a stack.
        let mut next: Vec<(usize, usize)> = roots.iter().rev().map(|&index| (index, 1)).collect();
        while let Some((index, depth)) = next.pop() {
            let event = self.trace.event(index);
            if self.shown.contains(&index) && self.lines < LINES_MAX {
                self.lines += 1;
                let mark = if self.marked.contains(&index) {
                    "> "
                } else {
                    "  "
                };
                let indent = "  ".repeat(depth.min(LINE_MAX / 4));
                let line = format!("{mark}{indent}{event}");
                self.out.push('\n');
                self.out.extend(line.chars().take(LINE_MAX));
                if line.chars().nth(LINE_MAX).is_some() {
                    self.out.push_str("..");
                }
            } else {
                self.left_out += 1;
            }
            let mut inside: Vec<usize> = event.children().map(|child| child.index).collect();
            // Others are left out, as in outlines.
            let polls = event.polls().map(|poll| poll.index);
            inside.extend(polls.filter(|poll| self.marked.contains(poll)));
            inside.sort_unstable();
            next.extend(inside.into_iter().rev().map(|index| (index, depth + 1)));
        }
    }
}

fn write_rest(count: usize, indent: &str, out: &mut String) {
    if count > 0 {
        // Writing to a string does not fail.
        let _ = write!(out, "\n{indent}.. and {count} more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_close_is_found() {
        let names = ["disk_read", "disk_write", "x"];
        assert_eq!(closest("disk_raed", names), Some("disk_read"));
        assert_eq!(closest("disk", names), Some("disk_read"));
        assert_eq!(closest("psuh", ["push", "x"]), Some("push"));
        assert_eq!(closest("network", names), None);
        assert_eq!(closest("network", []), None);
    }

    #[test]
    fn a_long_list_ends_with_how_many_are_left() {
        let entries: Vec<String> = (0..22).map(|number| number.to_string()).collect();
        let text = list("numbers", &entries);
        assert!(text.starts_with("numbers:\n    0\n    1\n"), "{text}");
        assert!(text.ends_with("\n    19\n    .. and 2 more"), "{text}");
    }
}
