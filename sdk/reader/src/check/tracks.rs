//! Checks tracks: they have descriptors and no cycles of parents, and are used according to their
//! kind.

use std::collections::HashMap;

use super::finding::{Finding, Level, Rule};
use crate::event::{Event, EventKind};
use crate::names::NameTable;
use crate::place::PacketPlace;
use crate::record::TrackRecord;
use crate::tracks::{TrackId, TrackKind, TrackTable};

/// A packet that uses or describes a track.
#[derive(Clone, Copy, Debug)]
struct PacketRef {
    place: PacketPlace,
    sequence_id: u32,
    /// The level at which a descriptor that the packet lacks is reported: a sequence describes what
    /// its events build on, so a descriptor may be among the packets that the sequence has lost.
    level_of_lack: Level,
}

/// Tracks that were used before they had a descriptor. They are judged at the end of the trace.
#[derive(Debug, Default)]
pub(super) struct TrackUses {
    undescribed: HashMap<TrackId, Uses>,
    /// Tracks whose parent had no descriptor yet when they were described.
    orphans: HashMap<TrackId, PacketRef>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    for_slices: Option<PacketRef>,
    for_values: Option<PacketRef>,
}

impl PacketRef {
    fn finding(self, rule: Rule, text: String) -> Finding {
        Finding::at(self.place, self.sequence_id, Level::Error, rule, text)
    }
}

impl TrackUses {
    pub(super) fn event(
        &mut self,
        event: &Event<'_>,
        level_of_lack: Level,
        report: &mut impl FnMut(Finding),
    ) {
        let seen = PacketRef {
            place: event.head.place,
            sequence_id: event.head.sequence_id,
            level_of_lack,
        };
        let is_value = matches!(event.head.kind, EventKind::Counter(_));
        self.used(
            event.head.track,
            is_value,
            seen,
            (event.tracks(), event.names()),
            report,
        );
        for (track, _) in event.extra_counters() {
            self.used(*track, true, seen, (event.tracks(), event.names()), report);
        }
    }

    fn used(
        &mut self,
        track: TrackId,
        is_value: bool,
        seen: PacketRef,
        (tracks, names): (&TrackTable, &NameTable),
        report: &mut impl FnMut(Finding),
    ) {
        if tracks.track(track).is_described {
            if let Some(text) = misuse(track, is_value, tracks, names) {
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
        names: &NameTable,
        level_of_lack: Level,
        report: &mut impl FnMut(Finding),
    ) {
        let seen = PacketRef {
            place: record.place,
            sequence_id: record.sequence_id,
            level_of_lack,
        };
        let track = tracks.track(record.track);
        let is_above_itself = tracks
            .ancestry(record.track)
            .skip(1)
            .any(|(id, _)| id == record.track);
        if is_above_itself {
            let text = format!("{} is its own ancestor", tracks.label(record.track, names));
            report(seen.finding(Rule::TrackTree, text));
        } else if tracks.ancestry(record.track).count() == TrackTable::PARENTS_MAX {
            let text = format!(
                "{} has {} ancestors or more; only so many are checked",
                tracks.label(record.track, names),
                TrackTable::PARENTS_MAX - 1
            );
            report(Finding {
                level: Level::Note,
                ..seen.finding(Rule::TrackTree, text)
            });
        }
        if let Some(parent) = track.parent
            && !tracks.track(parent).is_described
        {
            self.orphans.insert(record.track, seen);
        }
    }

    /// Reports the tracks that still lack a descriptor at the end of the trace, and uses that do
    /// not fit a later descriptor.
    pub(super) fn finish(
        &self,
        tracks: &TrackTable,
        names: &NameTable,
        report: &mut impl FnMut(Finding),
    ) {
        // Sort by place in the file first, then format one by one: there may be millions of faults,
        // whose texts would take much memory.
        let mut faulty = Vec::new();
        for (id, uses) in &self.undescribed {
            for (is_value, seen) in [(false, uses.for_slices), (true, uses.for_values)] {
                faulty.extend(
                    seen.map(|seen| (seen.place.index, *id, DeferredFault::Use { is_value })),
                );
            }
        }
        let orphans = self.orphans.iter();
        faulty.extend(orphans.map(|(id, seen)| (seen.place.index, *id, DeferredFault::Orphan)));
        faulty.sort_unstable();
        for (_, id, late) in faulty {
            let (seen, fault) = match late {
                DeferredFault::Use { is_value } => {
                    let uses = self.undescribed.get(&id);
                    let seen = uses.and_then(|uses| match is_value {
                        false => uses.for_slices,
                        true => uses.for_values,
                    });
                    (seen, fault_of_use(id, is_value, tracks, names))
                }
                DeferredFault::Orphan => (
                    self.orphans.get(&id).copied(),
                    fault_of_orphan(id, tracks, names),
                ),
            };
            let Some((seen, (rule, text))) = seen.zip(fault) else {
                continue;
            };
            let level = match rule {
                Rule::Counter => Level::Error,
                _ => seen.level_of_lack,
            };
            report(Finding {
                level,
                ..seen.finding(rule, text)
            });
        }
    }
}

/// A fault that can be judged only at the end of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DeferredFault {
    Use { is_value: bool },
    Orphan,
}

/// Describes the fault of a slice or a value on a track that had no descriptor at that time.
fn fault_of_use(
    id: TrackId,
    is_value: bool,
    tracks: &TrackTable,
    names: &NameTable,
) -> Option<(Rule, String)> {
    let track = tracks.track(id);
    // Events that name no track are on track 0, which needs no descriptor.
    if !track.is_described && track.uuid != 0 {
        let text = format!("track {} has no descriptor", track.uuid);
        return Some((Rule::Track, text));
    }
    misuse(id, is_value, tracks, names).map(|text| (Rule::Counter, text))
}

/// Describes the fault of a track whose parent had no descriptor at that time.
fn fault_of_orphan(id: TrackId, tracks: &TrackTable, names: &NameTable) -> Option<(Rule, String)> {
    let parent = tracks.track(id).parent?;
    (!tracks.track(parent).is_described).then(|| {
        let text = format!(
            "{} is under {}, which has no descriptor",
            tracks.label(id, names),
            tracks.label(parent, names)
        );
        (Rule::TrackTree, text)
    })
}

/// Describes the fault of a slice or a value on a track of the wrong kind.
fn misuse(id: TrackId, is_value: bool, tracks: &TrackTable, names: &NameTable) -> Option<String> {
    let is_counter = matches!(tracks.track(id).kind, TrackKind::Counter(_));
    let track = || tracks.label(id, names);
    match (is_value, is_counter) {
        (true, false) => Some(format!(
            "a counter value is on {}, which is not a counter",
            track()
        )),
        (false, true) => Some(format!(
            "a slice or an instant is on {}, which is a counter",
            track()
        )),
        _ => None,
    }
}
