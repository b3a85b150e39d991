//! The table `slice`.

use tracezero_reader::{
    Event, EventHead, EventKind, InTimeOrder, NameId, NameTable, Slice, Slices,
};

use super::args::ArgRows;
use super::details::{DetailFields, Details, DetailsId, FlowEnd, OpenDetails, WaitingDetails};
use super::flows::FlowRows;
use super::slice_row::{Outcome, SliceRow, Span};
use super::threads::Threads;
use crate::error::LakeError;
use crate::promoted::{Promoted, PromotedValue};
use crate::sorter::Sorter;
use crate::staging::Staging;
use crate::table::ColumnType;
use crate::table_writer::TableWriter;
use crate::workers::Workers;

/// The number of rows that are kept in memory.
const ROWS_MAX: usize = 256 * 1024;

/// Collects the slices and instants of a trace, with their arguments and flows.
#[derive(Debug)]
pub(super) struct SliceRows<'s> {
    order: InTimeOrder,
    paired: Paired<'s>,
    promoted: Promoted,
}

/// Slices whose begin and end are known, and those that have not ended yet.
#[derive(Debug)]
struct Paired<'s> {
    slices: Slices<Opened>,
    /// Slices that the last event has ended.
    ended: Vec<Slice<Opened>>,
    waiting: WaitingDetails,
    open: OpenDetails,
    rows: Sorter<SliceRow>,
    args: ArgRows<'s>,
    flows: FlowRows,
    texts: NameTable,
    /// The first error inside of a callback.
    error: Option<LakeError>,
}

/// What an open slice carries.
#[derive(Clone, Copy, Debug)]
struct Opened {
    details: DetailsId,
    /// The packet that began the slice around it.
    parent_packet: Option<u64>,
}

/// The slices of a trace that was read to its end.
#[derive(Debug)]
pub(super) struct CollectedSlices<'s> {
    rows: Sorter<SliceRow>,
    args: ArgRows<'s>,
    flows: FlowRows,
    texts: NameTable,
    promoted: Promoted,
    /// The number of slices that have not ended.
    pub(super) open: u64,
}

impl<'s> SliceRows<'s> {
    /// Creates an instance that writes the arguments of slices to the table `args`.
    pub(super) fn new(
        args: TableWriter,
        promoted: &Promoted,
        workers: &Workers,
        staging: &'s Staging,
    ) -> Self {
        Self {
            order: InTimeOrder::new(),
            paired: Paired {
                slices: Slices::new(),
                ended: Vec::new(),
                waiting: WaitingDetails::default(),
                open: OpenDetails::default(),
                rows: Sorter::new(ROWS_MAX, workers, staging.path("slices")),
                args: ArgRows::new(args, promoted, staging, workers),
                flows: FlowRows::new(workers, |name| staging.path(name)),
                texts: NameTable::new(),
                error: None,
            },
            promoted: promoted.clone(),
        }
    }

    /// Adds an event that is a slice or an instant, or begins or ends a slice.
    pub(super) fn add(&mut self, event: &Event<'_>) -> Result<(), LakeError> {
        let paired = &mut self.paired;
        if !event.is_plain() {
            paired.read_details(event, &self.promoted)?;
        }
        self.order
            .add(&event.head, event.tracks(), |event| paired.add(event));
        self.paired.waiting.keep_last();
        match self.paired.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Completes the slices. Call it after the last event.
    pub(super) fn finish(mut self) -> Result<CollectedSlices<'s>, LakeError> {
        let mut paired = self.paired;
        self.order.finish(|event| paired.add(event));
        let mut ended = std::mem::take(&mut paired.ended);
        paired.slices.finish(|slice| ended.push(slice));
        for slice in ended {
            paired.push_ended(&slice, None);
        }
        let slices = std::mem::take(&mut paired.slices);
        let mut open = 0;
        let (mut track, mut depth) = (None, 0);
        for slice in slices.open() {
            if track != Some(slice.begin.track) {
                (track, depth) = (Some(slice.begin.track), 0);
            }
            let row = SliceRow {
                span: Span::Open,
                ..row(&slice.begin, slice.value.parent_packet, depth)
            };
            let details = paired.open.take(slice.value.details);
            paired.push(row, details);
            depth += 1;
            open += 1;
        }
        if let Some(error) = paired.error {
            return Err(error);
        }
        Ok(CollectedSlices {
            rows: paired.rows,
            args: paired.args,
            flows: paired.flows,
            texts: paired.texts,
            promoted: self.promoted,
            open,
        })
    }
}

impl Paired<'_> {
    /// Reads arguments and flows of the event that was read last.
    fn read_details(&mut self, event: &Event<'_>, promoted: &Promoted) -> Result<(), LakeError> {
        let fields = DetailFields::of(event);
        let mut details = Details::default();
        self.args
            .add(event, fields, promoted, &mut self.texts, &mut details)?;
        if fields.has_flows {
            let flows = event.flows().map(|flow| (flow, false));
            let last_flows = event.terminating_flows().map(|flow| (flow, true));
            let flows = flows.chain(last_flows);
            let flows = flows.map(|(flow, is_last)| FlowEnd { flow, is_last });
            details.flows.extend(flows);
        }
        self.waiting.set_last(event.head.place.index, details);
        Ok(())
    }

    /// Adds the event that is next in order.
    fn add(&mut self, event: &EventHead) {
        let packet = event.place.index;
        let mut details = self.waiting.take(packet);
        let (open, ended) = (&mut self.open, &mut self.ended);
        let takes_details = event.kind != EventKind::SliceEnd;
        self.slices.add(
            event,
            |parent| Opened {
                details: open.add(details.take_if(|_| takes_details)),
                parent_packet: parent.map(|parent| parent.begin.place.index),
            },
            |slice| ended.push(slice),
        );
        if event.kind == EventKind::Instant {
            let around = self.slices.open_on(event.track);
            let parent_packet = around.last().map(|parent| parent.begin.place.index);
            let row = row(event, parent_packet, around.len());
            self.push(row, details.take());
        }
        let mut ended = std::mem::take(&mut self.ended);
        for slice in ended.drain(..) {
            // An end belongs to the slice that has no end of its own; others that end now are inside of it.
            let is_ended_by_event = slice.begin.kind == EventKind::SliceBegin;
            let end = details.take_if(|_| is_ended_by_event);
            if end.as_ref().is_some_and(|end| end.has_args) {
                let noted = self.args.end_slice(packet, slice.begin.place.index);
                self.note(noted);
            }
            self.push_ended(&slice, end.map(|end| (event.timestamp_ns, end)));
        }
        self.ended = ended;
    }

    /// Adds a slice that has ended, by an event at this time with these details.
    #[inline]
    fn push_ended(&mut self, slice: &Slice<Opened>, end: Option<(u64, Details)>) {
        let mut row = SliceRow {
            span: Span::Ended {
                duration_ns: slice.duration_ns,
                self_ns: slice.self_ns,
            },
            ..row(&slice.begin, slice.value.parent_packet, slice.depth)
        };
        let mut details = self.open.take(slice.value.details);
        if let Some((end_ns, mut end)) = end {
            row.has_flows = !end.flows.is_empty();
            for flow in end.flows.drain(..) {
                let noted = self.flows.add(row.packet, flow, end_ns);
                self.note(noted);
            }
            details.get_or_insert_default().add(end);
        }
        self.push(row, details);
    }

    fn push(&mut self, mut row: SliceRow, details: Option<Details>) {
        if let Some(details) = details {
            for flow in &details.flows {
                let noted = self.flows.add(row.packet, *flow, row.begin_ns);
                self.note(noted);
            }
            row.has_flows |= !details.flows.is_empty();
            row.has_args = details.has_args;
            row.outcome = details.outcome;
            let promoted = details.promoted;
            row.promoted = (!promoted.is_empty()).then(|| promoted.into());
        }
        let pushed = self.rows.push(row);
        self.note(pushed);
    }

    fn note(&mut self, result: Result<(), LakeError>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

/// Returns the row of an instant, or the beginning of the row of a slice.
#[inline]
fn row(begin: &EventHead, parent_packet: Option<u64>, depth: usize) -> SliceRow {
    SliceRow {
        begin_ns: begin.timestamp_ns,
        packet: begin.place.index,
        parent_packet,
        track: begin.track.index() as u32,
        name: begin.name,
        category: begin.category,
        depth: depth as u32,
        ..SliceRow::default()
    }
}

/// Finds the numbers of slices around other slices.
#[derive(Debug, Default)]
struct Parents {
    /// For each track, and each depth, the packet and the number of the last slice.
    last: Vec<Vec<(u64, i64)>>,
}

impl Parents {
    /// Adds the next slice, and returns the number of the slice around it.
    fn add(&mut self, row: &SliceRow, id: i64) -> Option<i64> {
        let (track, depth) = (row.track as usize, row.depth as usize);
        if track >= self.last.len() {
            self.last.resize_with(track + 1, Vec::new);
        }
        let last = &mut self.last[track];
        last.truncate(depth);
        // If times are wrong, a slice may come before the one around it.
        let parent = row.parent_packet.and_then(|packet| {
            let around = last.last()?;
            (around.0 == packet).then_some(around.1)
        });
        if row.span != Span::Instant {
            last.resize(depth, (u64::MAX, 0));
            last.push((row.packet, id));
        }
        parent
    }
}

impl<'s> CollectedSlices<'s> {
    /// Writes the rows of the table. Returns arguments and flows of the slices.
    pub(super) fn write(
        mut self,
        table: &mut TableWriter,
        staging: &Staging,
        threads: &Threads,
        names: &NameTable,
    ) -> Result<(ArgRows<'s>, FlowRows), LakeError> {
        let mut rows = self.rows.finish()?;
        let mut parents = Parents::default();
        let mut id = 0;
        let promoted: Vec<ColumnType> = self
            .promoted
            .columns()
            .map(|column| column.column_type)
            .collect();
        while let Some(slice) = rows.next()? {
            if slice.has_flows {
                self.flows.set_id(slice.packet, id)?;
            }
            let number = id.cast_signed();
            let parent = parents.add(&slice, number);
            id += 1;
            let owner = threads.of_track(slice.track);
            let (duration, own) = match slice.span {
                Span::Instant => (0, Some(0)),
                Span::Open => (-1, None),
                Span::Ended {
                    duration_ns,
                    self_ns,
                } => (signed(duration_ns), Some(signed(self_ns))),
            };
            let kind = match slice.span {
                Span::Instant => (1, "instant"),
                _ => (0, "slice"),
            };
            let outcome = slice.outcome.map(|outcome| match outcome {
                Outcome::Cancelled => (0, "cancelled"),
                Outcome::Panicked => (1, "panicked"),
            });
            let mut row = table.row(staging)?;
            row.int(number)
                .uint(slice.begin_ns)
                .int(duration)
                .maybe_int(own)
                .int(slice.track.into())
                .maybe_int(owner.utid)
                .maybe_int(owner.upid)
                .int(slice.depth.into())
                .maybe_int(parent)
                .maybe_name(slice.category, names)
                .maybe_name(slice.name, names)
                .choice(Some(kind))
                .choice(outcome)
                .maybe_int(slice.has_args.then(|| signed(slice.packet)))
                .maybe_name(owner.thread_name, threads.names())
                .maybe_name(owner.process_name, threads.names())
                .maybe_name(owner.track_name, threads.names());
            for (column, column_type) in (0..).zip(&promoted) {
                let values = slice.promoted.as_deref().unwrap_or_default();
                let value = values.iter().find(|(other, _)| *other == column);
                match (column_type, value.map(|(_, value)| *value)) {
                    (ColumnType::Real, Some(PromotedValue::Real(value))) => {
                        row.maybe_real(Some(value));
                    }
                    (ColumnType::Text, Some(PromotedValue::Text(text))) => {
                        row.name(text, &self.texts);
                    }
                    (ColumnType::Int, Some(PromotedValue::Int(value))) => {
                        row.int(value);
                    }
                    _ => {
                        row.maybe_name(NameId::NONE, names);
                    }
                }
            }
        }
        Ok((self.args, self.flows))
    }
}

fn signed(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
