//! Tracks: described, under others without circles, and used for what they are.

use std::collections::HashMap;

use super::finding::{Finding, Level, Rule};
use crate::reader::event::{Event, EventKind};
use crate::reader::place::PacketPlace;
use crate::reader::record::TrackRecord;
use crate::reader::tracks::{TrackId, TrackKind, TrackTable};

/// Where something was seen first.
#[derive(Clone, Copy, Debug)]
struct Seen {
    place: PacketPlace,
    sequence_id: u32,
}

/// What has been seen of tracks that were not described by then.
#[derive(Debug, Default)]
pub(super) struct TrackUses {
    undescribed: HashMap<TrackId, Uses>,
    /// Tracks whose parent was not described by then.
    orphans: HashMap<TrackId, Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    for_slices: Option<Seen>,
    for_values: Option<Seen>,
}

impl Seen {
    fn finding(self, rule: Rule, text: String) -> Finding {
        Finding::at(self.place, self.sequence_id, Level::Error, rule, text)
    }
}

impl TrackUses {
    pub(super) fn event(&mut self, event: &Event<'_>, report: &mut impl FnMut(Finding)) {
        let seen = Seen {
            place: event.place,
            sequence_id: event.sequence_id,
        };
        let is_value = matches!(event.kind, EventKind::Counter(_));
        self.used(event.track, is_value, seen, event.tracks(), report);
        for (track, _) in event.extra_counters() {
            self.used(*track, true, seen, event.tracks(), report);
        }
    }

    fn used(
        &mut self,
        track: TrackId,
        is_value: bool,
        seen: Seen,
        tracks: &TrackTable,
        report: &mut impl FnMut(Finding),
    ) {
        if tracks.track(track).is_described {
            if let Some(text) = misuse(track, is_value, tracks) {
                report(seen.finding(Rule::Counter, text));
            }
            return;
        }
        let uses = self.undescribed.entry(track).or_default();
        let first = if is_value {
            &mut uses.for_values
        } else {
            &mut uses.for_slices
        };
        first.get_or_insert(seen);
    }

    pub(super) fn described(
        &mut self,
        record: &TrackRecord,
        tracks: &TrackTable,
        report: &mut impl FnMut(Finding),
    ) {
        let seen = Seen {
            place: record.place,
            sequence_id: record.sequence_id,
        };
        let track = tracks.track(record.track);
        let is_above_itself = tracks
            .ancestry(record.track)
            .skip(1)
            .any(|(id, _)| id == record.track);
        if is_above_itself {
            let text = format!("track {} is above itself", track.uuid);
            report(seen.finding(Rule::TrackTree, text));
        }
        if let Some(parent) = track.parent
            && !tracks.track(parent).is_described
        {
            self.orphans.insert(record.track, seen);
        }
    }

    /// The trace has ended: what has not been described is not.
    pub(super) fn finish(&self, tracks: &TrackTable, report: &mut impl FnMut(Finding)) {
        let mut findings = Vec::new();
        for (id, uses) in &self.undescribed {
            let track = tracks.track(*id);
            for (is_value, seen) in [(false, uses.for_slices), (true, uses.for_values)] {
                let Some(seen) = seen else { continue };
                // Events that name no track are on one that needs no descriptor.
                if !track.is_described && track.uuid != 0 {
                    let text = format!("track {} has no descriptor", track.uuid);
                    findings.push(seen.finding(Rule::Track, text));
                } else if let Some(text) = misuse(*id, is_value, tracks) {
                    findings.push(seen.finding(Rule::Counter, text));
                }
            }
        }
        for (id, seen) in &self.orphans {
            let track = tracks.track(*id);
            let Some(parent) = track.parent.map(|parent| tracks.track(parent)) else {
                continue;
            };
            if !parent.is_described {
                let text = format!(
                    "track {} is under track {}, which has no descriptor",
                    track.uuid, parent.uuid
                );
                findings.push(seen.finding(Rule::TrackTree, text));
            }
        }
        findings.sort_by_key(|finding| (finding.packet, finding.rule));
        findings.into_iter().for_each(report);
    }
}

/// What is wrong with a slice or a value on a track.
fn misuse(track: TrackId, is_value: bool, tracks: &TrackTable) -> Option<String> {
    let track = tracks.track(track);
    let is_counter = matches!(track.kind, TrackKind::Counter(_));
    match (is_value, is_counter) {
        (true, false) => Some(format!(
            "a value on track {}, which is no counter",
            track.uuid
        )),
        (false, true) => Some(format!(
            "a slice or an instant on track {}, which is a counter",
            track.uuid
        )),
        _ => None,
    }
}
