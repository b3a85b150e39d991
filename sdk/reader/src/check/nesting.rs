//! Begins and ends: paired on each track, in the order of time.

use super::finding::{Finding, Level, Rule};
use crate::event::{EventHead, EventKind};
use crate::names::NameTable;
use crate::slices::Slices;
use crate::time_order::InTimeOrder;
use crate::tracks::{TrackKind, TrackTable};

/// The slices of a trace.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    order: InTimeOrder,
    slices: Slices<()>,
    /// By track: the sequence that wrote to it last, and when.
    last: Vec<(u32, u64)>,
    /// An end without a begin was found while something was missing.
    lost_begins: u64,
}

impl Nesting {
    /// `has_losses` says that something is missing from the trace up to here.
    pub(super) fn event(
        &mut self,
        event: &EventHead,
        tracks: &TrackTable,
        names: &NameTable,
        has_losses: bool,
        report: &mut impl FnMut(Finding),
    ) {
        let is_slice = matches!(
            event.kind,
            EventKind::SliceBegin | EventKind::SliceEnd | EventKind::Slice { .. }
        );
        if !is_slice {
            return;
        }
        self.time_order(event, tracks, names, report);
        let Self {
            order,
            slices,
            lost_begins,
            ..
        } = self;
        order.add(event, tracks, |event| {
            *lost_begins += pair(slices, event, tracks, names, has_losses, report);
        });
    }

    /// A sequence that writes to its thread's track does so as things happen.
    fn time_order(
        &mut self,
        event: &EventHead,
        tracks: &TrackTable,
        names: &NameTable,
        report: &mut impl FnMut(Finding),
    ) {
        let index = event.track.index();
        if index >= self.last.len() {
            self.last.resize(index + 1, (0, 0));
        }
        let (sequence_id, last_ns) = &mut self.last[index];
        if *sequence_id == event.sequence_id && event.timestamp_ns < *last_ns {
            let is_thread = matches!(tracks.track(event.track).kind, TrackKind::Thread { .. });
            let level = if is_thread { Level::Error } else { Level::Note };
            let text = format!(
                "time runs backwards by {} ns on {}",
                *last_ns - event.timestamp_ns,
                tracks.label(event.track, names)
            );
            report(finding(event, level, Rule::TimeOrder, text));
        }
        (*sequence_id, *last_ns) = (event.sequence_id, event.timestamp_ns);
    }

    /// The trace has ended.
    pub(super) fn finish(
        &mut self,
        tracks: &TrackTable,
        names: &NameTable,
        has_losses: bool,
        report: &mut impl FnMut(Finding),
    ) {
        let Self {
            order,
            slices,
            lost_begins,
            ..
        } = self;
        order.finish(|event| {
            *lost_begins += pair(slices, event, tracks, names, has_losses, report);
        });
        slices.finish(|_| {});
        for slice in slices.open() {
            let text = format!(
                "{:?} on {} has no end",
                names.text(slice.begin.name),
                tracks.label(slice.begin.track, names)
            );
            report(finding(&slice.begin, Level::Note, Rule::Nesting, text));
        }
        let too_deep = slices.counts().too_deep;
        if too_deep > 0 {
            report(of_trace(format!(
                "{too_deep} slices are too deep to be looked at"
            )));
        }
        if order.late() > 0 {
            report(of_trace(format!(
                "{} events of tracks of several threads are too far from their order",
                order.late()
            )));
        }
    }

    /// Ends without a begin that losses explain.
    pub(super) const fn lost_begins(&self) -> u64 {
        self.lost_begins
    }
}

/// Adds an event to the slices; returns how many lost begins it tells of.
fn pair(
    slices: &mut Slices<()>,
    event: &EventHead,
    tracks: &TrackTable,
    names: &NameTable,
    has_losses: bool,
    report: &mut impl FnMut(Finding),
) -> u64 {
    let before = slices.counts();
    slices.add(event, |_| (), |_| {});
    let after = slices.counts();
    if after.backwards > before.backwards {
        let track = tracks.label(event.track, names);
        let text = format!("a slice on {track} ends before it begins");
        report(finding(event, Level::Error, Rule::Nesting, text));
    }
    if after.unmatched_ends == before.unmatched_ends {
        return 0;
    }
    if has_losses {
        return 1;
    }
    let track = tracks.label(event.track, names);
    let text = format!("an end on {track} without a begin");
    report(finding(event, Level::Error, Rule::Nesting, text));
    0
}

fn finding(event: &EventHead, level: Level, rule: Rule, text: String) -> Finding {
    Finding::at(event.place, event.sequence_id, level, rule, text)
}

fn of_trace(text: String) -> Finding {
    Finding {
        rule: Rule::Nesting,
        level: Level::Note,
        packet: None,
        sequence_id: None,
        offset: None,
        text,
    }
}
