//! Builds the messages of failed assertions.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem;

use super::event::{Event, Kind};
use super::trace::Trace;

/// The number of lines of the trace that a message shows at most.
const LINES_MAX: usize = 60;
/// The number of events that a message explains at most.
pub(super) const EVENTS_MAX: usize = 5;
/// The number of entries of a list that a message shows at most.
const ENTRIES_MAX: usize = 20;
/// The length of a line at most, in characters.
const LINE_MAX: usize = 200;

/// Formats a heading with a list of entries.
pub(super) fn list(heading: &str, entries: &[String]) -> String {
    let mut out = format!("{heading}:");
    for entry in entries.iter().take(ENTRIES_MAX) {
        out.push_str("\n    ");
        out.push_str(entry);
    }
    write_rest(entries.len().saturating_sub(ENTRIES_MAX), "    ", &mut out);
    out
}

/// Suggests what may have been meant by a name that no event of this kind has, as the end of a
/// sentence. Returns an empty string if nothing is similar.
pub(super) fn similar_name(trace: &Trace, kind: Kind, name: &str) -> String {
    let others = match kind {
        Kind::Span => [Kind::Instant, Kind::Poll],
        Kind::Poll => [Kind::Span, Kind::Instant],
        Kind::Instant => [Kind::Span, Kind::Poll],
    };
    for other in others {
        if trace.names_of(other).contains(name) {
            let article = if other == Kind::Instant { "an" } else { "a" };
            return format!("; there is {article} {other} with this name");
        }
    }
    if let Some(similar) = closest(name, trace.names_of(kind)) {
        return format!("; did you mean {similar:?}?");
    }
    others
        .into_iter()
        .find_map(|other| {
            let similar = closest(name, trace.names_of(other))?;
            Some(format!("; did you mean the {other} {similar:?}?"))
        })
        .unwrap_or_default()
}

/// Suggests the closest of `names`, as the end of a sentence.
pub(super) fn is_it<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    match closest(name, names) {
        Some(similar) => format!("; did you mean {similar:?}?"),
        None => String::new(),
    }
}

/// Returns a hint why events may be missing in a capture, or an empty string.
pub(super) fn attach_hint(trace: &Trace) -> &'static str {
    if trace.has_unattached {
        "\nthreads not attached to a capture recorded events meanwhile; see `CaptureHandle`"
    } else {
        ""
    }
}

/// Returns the closest of `names`, if `name` may be a misspelling of it.
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

/// Returns the number of changes from `left` to `right`. A change replaces, inserts or removes a
/// character, or swaps two neighbours (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    // `row[n]` is the distance between the part of `left` that was read so far and the first n
    // characters of `right`. `earlier` is the row before.
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

/// Formats the trace as a tree, with the `marked` events marked. A long trace is reduced to the
/// marked events, their ancestors and their children.
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
        // The ancestors of an event that is shown are shown already, so the loop ends there.
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
    /// The number of events that were left out.
    left_out: usize,
}

impl Printer<'_> {
    fn trees(&mut self, roots: &[usize]) {
        // A stack with the next event on top. Recursion would not do: a trace may nest too deeply.
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
            // Polls that are not marked are left out, as in outlines.
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
    fn closest_name_is_found() {
        let names = ["disk_read", "disk_write", "x"];
        assert_eq!(closest("disk_raed", names), Some("disk_read"));
        assert_eq!(closest("disk", names), Some("disk_read"));
        assert_eq!(closest("psuh", ["push", "x"]), Some("push"));
        assert_eq!(closest("network", names), None);
        assert_eq!(closest("network", []), None);
    }

    #[test]
    fn long_list_ends_with_the_number_left_out() {
        let entries: Vec<String> = (0..22).map(|number| number.to_string()).collect();
        let text = list("numbers", &entries);
        assert!(text.starts_with("numbers:\n    0\n    1\n"), "{text}");
        assert!(text.ends_with("\n    19\n    .. and 2 more"), "{text}");
    }
}
