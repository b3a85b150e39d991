//! Checks that begins and ends of slices pair up on each track, and that time does not run
//! backwards.

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
    /// For each track, the sequence that wrote its last event, and the time of that event.
    last: Vec<(u32, u64)>,
    /// The number of ends whose begin may be among lost packets.
    lost_begins: u64,
}

impl Nesting {
    /// Checks an event. `has_losses` is true if packets are missing from the trace up to here.
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

    /// Checks that time does not run backwards on a track. On a thread's own track that is an
    /// error, because the thread writes its events as they happen.
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

    /// Reports the slices that are still open at the end of the trace, and how many slices and
    /// events could not be checked.
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
                "{too_deep} slices nest too deeply to be checked"
            )));
        }
        if order.late() > 0 {
            report(of_trace(format!(
                "{} events on tracks of several threads are too far out of order to be checked",
                order.late()
            )));
        }
    }

    /// Returns the number of ends whose begin may be among lost packets.
    pub(super) const fn lost_begins(&self) -> u64 {
        self.lost_begins
    }
}

/// Adds an event to the slices. Returns the number of ends (0 or 1) whose begin may be among lost
/// packets.
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
    let text = format!("an end on {track} has no begin");
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
