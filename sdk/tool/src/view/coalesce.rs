//! Lets tracks with the same name and parent share lines while they do not overlap in time. If each
//! of ten thousand requests has a track, the page then needs only as many lines as the largest
//! number of requests that were open at the same time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::rows::{Event, Row};
use super::timeline::{Timeline, TrackIndex};

/// The extent of a track that contains nothing.
const NOWHERE: Extent = Extent {
    start_ns: u64::MAX,
    end_ns: 0,
};

/// The time from the first begin to the last end, of a track and all tracks below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start_ns: u64,
    end_ns: u64,
}

/// Puts plain tracks on shared lines. Changes rows, parents and losses accordingly.
pub(crate) fn coalesce(timeline: &mut Timeline, rows: Vec<Row>) -> Vec<Row> {
    let order = parents_first(timeline);
    let extents = extents(timeline, &rows, &order);
    let places = places(timeline, &extents, &order);
    for track in &mut timeline.tracks {
        track.parent = track.parent.map(|parent| places[parent as usize]);
    }
    for loss in &mut timeline.losses {
        for track in &mut loss.tracks {
            track.0 = places[track.0 as usize];
        }
        loss.tracks.sort_unstable();
        loss.tracks.dedup();
    }
    join_rows(rows, &places)
}

/// Returns all tracks, parents before children.
fn parents_first(timeline: &Timeline) -> Vec<usize> {
    let mut children = vec![Vec::new(); timeline.tracks.len()];
    let mut order = Vec::with_capacity(timeline.tracks.len());
    for (index, track) in timeline.tracks.iter().enumerate() {
        match track.parent {
            Some(parent) => children[parent as usize].push(index),
            None => order.push(index),
        }
    }
    let mut done = 0;
    while let Some(&index) = order.get(done) {
        order.append(&mut children[index]);
        done += 1;
    }
    order
}

fn extents(timeline: &Timeline, rows: &[Row], order: &[usize]) -> Vec<Extent> {
    let mut extents = vec![NOWHERE; timeline.tracks.len()];
    for row in rows {
        if let (Some(first), Some(last)) = (row.events.first(), row.events.last()) {
            let extent = &mut extents[row.track.0 as usize];
            let end_ns = last.start_ns.saturating_add(last.duration_ns);
            extent.start_ns = extent.start_ns.min(first.start_ns);
            extent.end_ns = extent.end_ns.max(end_ns);
        }
    }
    for &index in order.iter().rev() {
        if let Some(parent) = timeline.tracks[index].parent {
            let below = extents[index];
            let extent = &mut extents[parent as usize];
            extent.start_ns = extent.start_ns.min(below.start_ns);
            extent.end_ns = extent.end_ns.max(below.end_ns);
        }
    }
    extents
}

/// Returns for each track the track whose line it is put on.
fn places(timeline: &Timeline, extents: &[Extent], order: &[usize]) -> Vec<u32> {
    let mut places: Vec<u32> = (0..).take(timeline.tracks.len()).collect();
    let mut level = order;
    // Go level by level, from the roots down, because each level changes the parents of the next
    // level.
    while let Some(&first) = level.first() {
        let height = height_of(timeline, first);
        let length = level.partition_point(|&index| height_of(timeline, index) == height);
        let mut groups: HashMap<_, Vec<usize>> = HashMap::new();
        for &index in &level[..length] {
            let track = &timeline.tracks[index];
            let is_plain = track.kind == "track" && timeline.counters[index].is_empty();
            if is_plain && extents[index] != NOWHERE {
                let parent = track.parent.map(|parent| places[parent as usize]);
                groups.entry((parent, &track.name)).or_default().push(index);
            }
        }
        for mut group in groups.into_values() {
            group.sort_by_key(|&index| (extents[index].start_ns, index));
            pack(&group, extents, &mut places);
        }
        level = &level[length..];
    }
    places
}

/// Returns the level of a track: 1 for a track without a parent.
fn height_of(timeline: &Timeline, index: usize) -> usize {
    let parent = |index: &usize| timeline.tracks[*index].parent.map(|parent| parent as usize);
    std::iter::successors(Some(index), parent).count()
}

/// Puts tracks, in the order of their begins, each on the line that has been free for longest. If
/// no line is free, the track gets a line of its own.
fn pack(group: &[usize], extents: &[Extent], places: &mut [u32]) {
    let mut lines: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    for &index in group {
        let Extent { start_ns, end_ns } = extents[index];
        let free = lines
            .peek()
            .filter(|Reverse((free_ns, _))| *free_ns <= start_ns);
        if let Some(&Reverse((_, line))) = free {
            lines.pop();
            places[index] = line;
        }
        lines.push(Reverse((end_ns, places[index])));
    }
}

/// Merges rows of the same depth on the same track.
fn join_rows(mut rows: Vec<Row>, places: &[u32]) -> Vec<Row> {
    for row in &mut rows {
        row.track = TrackIndex(places[row.track.0 as usize]);
    }
    let start_ns = |events: &[Event]| events.first().map_or(0, |event| event.start_ns);
    rows.sort_by_key(|row| (row.track, row.depth, start_ns(&row.events)));
    let mut joined: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        match joined.last_mut() {
            Some(last) if (last.track, last.depth) == (row.track, row.depth) => {
                last.events.extend(row.events);
            }
            _ => joined.push(row),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::args::ArgsId;
    use crate::view::rows::{Form, place};
    use crate::view::timeline::{EventFacts, Track};

    /// Coalesces tracks, given by name, parent, and begin and end of their slice. Returns the track
    /// and the begins of each row.
    fn coalesced(tracks: &[(&str, Option<u32>, u64, u64)]) -> (Vec<(u32, Vec<u64>)>, Timeline) {
        let mut timeline = Timeline::new(String::new(), 0, 100);
        timeline.ensure_tracks(tracks.len());
        let label = timeline.label("slice", "");
        for (index, (name, parent, start_ns, end_ns)) in (0..).zip(tracks) {
            timeline.tracks[index as usize] = Track {
                name: (*name).to_owned(),
                kind: "track",
                parent: *parent,
                ..Track::default()
            };
            let facts = |time_ns| EventFacts {
                track: TrackIndex(index),
                time_ns,
                label,
                args: ArgsId::NONE,
                flows: &[],
            };
            if start_ns < end_ns {
                timeline.begin(facts(*start_ns));
                timeline.end(facts(*end_ns));
            }
        }
        let (rows, _) = place(&mut timeline, 100);
        let rows = coalesce(&mut timeline, rows);
        let rows = rows.into_iter().map(|row| {
            let begins = row.events.iter().map(|event| {
                assert_eq!(event.form, Form::Slice);
                event.start_ns
            });
            (row.track.0, begins.collect())
        });
        (rows.collect(), timeline)
    }

    #[test]
    fn tracks_of_one_name_share_a_line_while_they_do_not_overlap() {
        let tracks = [
            ("request", None, 0, 10),
            ("request", None, 5, 15),
            ("request", None, 10, 20),
            ("other", None, 30, 40),
            ("request", None, 15, 25),
        ];
        let (rows, _) = coalesced(&tracks);
        let expected = [(0, vec![0, 10]), (1, vec![5, 15]), (3, vec![30])];
        assert_eq!(rows, expected);
    }

    #[test]
    fn tracks_under_different_parents_stay_apart() {
        let tracks = [
            ("a", None, 0, 0),
            ("b", None, 0, 0),
            ("x", Some(0), 0, 10),
            ("x", Some(1), 20, 30),
        ];
        assert_eq!(coalesced(&tracks).0, [(2, vec![0]), (3, vec![20])]);
    }

    #[test]
    fn children_of_tracks_on_one_line_share_a_line_too() {
        let tracks = [
            ("request", None, 0, 10),
            ("request", None, 20, 30),
            ("step", Some(0), 2, 12),
            ("step", Some(1), 22, 28),
        ];
        let (rows, timeline) = coalesced(&tracks);
        assert_eq!(rows, [(0, vec![0, 20]), (2, vec![2, 22])]);
        assert_eq!(timeline.tracks[3].parent, Some(0));
    }

    #[test]
    fn a_line_is_taken_until_all_below_it_has_ended() {
        let tracks = [
            ("request", None, 0, 10),
            ("request", None, 15, 30),
            ("step", Some(0), 2, 20),
        ];
        let (rows, _) = coalesced(&tracks);
        assert_eq!(rows, [(0, vec![0]), (1, vec![15]), (2, vec![2])]);
    }
}
