//! Sorts the rows of a summary for printing.

use std::cmp::Reverse;

use tracezero_reader::{NameId, NameTable, Slices, TraceIdentity, TrackId, TrackTable};

use super::spans::Durations;
use super::states::StateTables;
use super::{CounterValues, OTHER_FIELDS, Sort, Summary, TrackCounts};
use crate::by_name::ByName;
use crate::kernel_account;
use crate::schema::Schema;
use crate::tracks::{SpanPlace, TrackPath, TrackPaths};

/// The name of the row for all names beyond the limit.
const OTHER_NAMES: &str = "(other names)";
const NO_NAME: &str = "(no name)";

/// A summary, with the tables that its ids refer to.
#[derive(Debug)]
pub(super) struct Report<'r> {
    pub(super) summary: &'r Summary,
    /// Where the trace comes from.
    pub(super) identities: &'r [TraceIdentity],
    /// The states of threads, if they are asked for.
    pub(super) states: Option<StateTables>,
    /// The slices that are open at the end.
    pub(super) slices: &'r Slices,
    pub(super) tracks: &'r TrackTable,
    pub(super) names: &'r NameTable,
    pub(super) paths: TrackPaths<'r>,
    pub(super) schema: &'r Schema,
    /// The maximum number of rows of each table.
    pub(super) top: usize,
    pub(super) sort: Sort,
    pub(super) damages: u64,
}

/// A span that has not ended.
#[derive(Debug)]
pub(super) struct OpenRow<'r> {
    pub(super) path: TrackPath,
    pub(super) on: &'static str,
    pub(super) category: &'r str,
    pub(super) name: &'r str,
    /// The time of its begin, counted from the first event of the trace.
    pub(super) since_ns: u64,
    /// The time from its begin to the last event.
    pub(super) age_ns: u64,
}

impl<'r> Report<'r> {
    /// Returns all tracks with events. The tracks with the most events come first.
    pub(super) fn sorted_tracks(&self) -> Vec<(TrackId, &'r TrackCounts)> {
        let tracks = self.tracks.iter().zip(&self.summary.tracks);
        let mut rows: Vec<_> = tracks
            .filter(|(_, counts)| counts.events > 0)
            .map(|((id, _), counts)| (id, counts))
            .collect();
        rows.sort_by_key(|(_, counts)| Reverse(counts.events));
        rows
    }

    /// Returns category, name and durations of the spans in a place that have ended.
    pub(super) fn sorted_spans(&self, place: SpanPlace) -> Vec<(&'r str, &'r str, &'r Durations)> {
        let spans = match place {
            SpanPlace::Thread => &self.summary.spans_on_threads,
            SpanPlace::Track => &self.summary.spans_on_tracks,
        };
        sorted_spans(spans, self.names, self.sort)
    }

    /// Returns the number of spans that have not ended.
    pub(super) fn open_spans(&self) -> usize {
        self.slices.open().count()
    }

    /// Returns the first spans that have not ended: spans on threads, by thread and outermost
    /// first, then spans on other tracks in the order of their begins.
    pub(super) fn first_open_spans(&self) -> Vec<OpenRow<'r>> {
        let mut open: Vec<_> = self.slices.open().map(|slice| &slice.begin).collect();
        open.sort_by_key(|begin| {
            let place = SpanPlace::of(self.tracks.track(begin.track));
            match place {
                SpanPlace::Thread => (place, begin.track, 0),
                SpanPlace::Track => (place, TrackId::default(), begin.timestamp_ns),
            }
        });
        let open = open.into_iter().take(self.top);
        let first_ns = self.summary.first_ns.unwrap_or_default();
        open.map(|begin| OpenRow {
            path: self.paths.of(begin.track),
            on: SpanPlace::of(self.tracks.track(begin.track)).as_str(),
            category: self.names.text(begin.category),
            name: self.name(begin.name),
            since_ns: begin.timestamp_ns.saturating_sub(first_ns),
            age_ns: self.summary.last_ns.saturating_sub(begin.timestamp_ns),
        })
        .collect()
    }

    /// Returns category, name and number of all instants, the most frequent first.
    pub(super) fn sorted_instants(&self) -> Vec<(&'r str, &'r str, u64)> {
        sorted_instants(&self.summary.instants, self.names)
    }

    /// Returns all counters, in the order in which they appeared.
    pub(super) fn counters(&self) -> Vec<(TrackId, CounterValues)> {
        let tracks = self.tracks.iter().zip(&self.summary.counters);
        tracks
            .filter_map(|((id, _), values)| Some((id, (*values)?)))
            .collect()
    }

    /// Returns the schema's name of a field of packets.
    pub(super) fn packet_name(&self, field: u32) -> &'r str {
        packet_name(field, self.schema)
    }

    pub(super) fn name(&self, name: NameId) -> &'r str {
        text(name, self.names)
    }
}

/// Returns category, name and durations of spans that have ended.
pub(super) fn sorted_spans<'r>(
    spans: &'r ByName<Durations>,
    names: &'r NameTable,
    sort: Sort,
) -> Vec<(&'r str, &'r str, &'r Durations)> {
    let mut rows = named(spans, names);
    rows.retain(|(.., row)| row.count > 0);
    rows.sort_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
    match sort {
        Sort::Total => rows.sort_by_key(|(.., row)| Reverse(row.total_ns)),
        Sort::SelfTime => rows.sort_by_key(|(.., row)| Reverse(row.self_ns)),
        Sort::Count => rows.sort_by_key(|(.., row)| Reverse(row.count)),
        Sort::Mean => rows.sort_by_key(|(.., row)| Reverse(row.mean_ns())),
        Sort::Max => rows.sort_by_key(|(.., row)| Reverse(row.max_ns)),
        Sort::Name => {}
    }
    rows
}

/// Returns category, name and number of instants, the most frequent first.
pub(super) fn sorted_instants<'r>(
    instants: &'r ByName<u64>,
    names: &'r NameTable,
) -> Vec<(&'r str, &'r str, u64)> {
    let rows = named(instants, names).into_iter();
    let mut rows: Vec<_> = rows
        .map(|(category, name, count)| (category, name, *count))
        .collect();
    rows.sort_by_key(|(category, name, count)| (Reverse(*count), *name, *category));
    rows
}

/// Returns category, name and value of all rows.
pub(super) fn named<'r, T: Default>(
    rows: &'r ByName<T>,
    names: &'r NameTable,
) -> Vec<(&'r str, &'r str, &'r T)> {
    let others = rows.others().map(|value| ("", OTHER_NAMES, value));
    rows.rows()
        .iter()
        .map(|row| {
            let category = names.text(row.category);
            (category, text(row.name, names), &row.value)
        })
        .chain(others)
        .collect()
}

/// Returns the schema's name of a field of packets.
pub(super) fn packet_name(field: u32, schema: &Schema) -> &str {
    if field == OTHER_FIELDS {
        return "(others)";
    }
    let known = schema.field(schema.packet(), field);
    known.map_or_else(
        || kernel_account::packet_name(field),
        |field| field.name.trim_matches(['[', ']']),
    )
}

fn text(name: NameId, names: &NameTable) -> &str {
    match names.text(name) {
        "" => NO_NAME,
        name => name,
    }
}
