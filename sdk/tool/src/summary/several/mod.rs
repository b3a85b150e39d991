//! Adds up several traces by name, and prints one summary of all.

mod json; // prints the sum as JSON
mod text; // prints the sum as tables

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use tracezero_reader::{NameTable, RecordingEnd};

use super::report::named;
use super::spans::Durations;
use super::text::unit;
use super::{Args, CounterValues, MAX_PACKET_KINDS, OTHER_FIELDS, PacketKind, Reading, Sort};
use crate::Outcome;
use crate::by_name::ByName;
use crate::error::ToolError;
use crate::output::stdout;
use crate::schema::Schema;

/// The sum of several traces.
#[derive(Debug, Default)]
struct Sum {
    names: NameTable,
    files: Vec<FileAccount>,
    /// The spans on threads, and on other tracks.
    spans: [ByName<Durations>; 2],
    instants: ByName<u64>,
    /// The values of counters, by name and unit.
    counters: ByName<Option<CounterSum>>,
    packet_kinds: BTreeMap<u32, PacketKind>,
}

/// What a file contains, and what it lacks.
#[derive(Debug)]
struct FileAccount {
    path: PathBuf,
    duration_ns: u64,
    bytes: u64,
    packets: u64,
    events: u64,
    /// The number of spans that have ended.
    spans: u64,
    open_spans: u64,
    packets_lost: u64,
    gaps: u64,
    kernel_events_lost: u64,
    damages: u64,
    packets_skipped: u64,
    /// The ends of recordings that are not whole.
    early_ends: Vec<RecordingEnd>,
}

/// Returns a figure of a file.
type Figure = fn(&FileAccount) -> u64;

/// The values of counters of one name.
#[derive(Clone, Copy, Debug)]
struct CounterSum {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
}

/// A sum, and how to print it.
#[derive(Clone, Copy, Debug)]
struct Report<'r> {
    sum: &'r Sum,
    schema: &'r Schema,
    sort: Sort,
    /// The maximum number of rows of each table.
    top: usize,
}

pub(super) fn run(args: &Args, top: usize) -> Result<Outcome, ToolError> {
    if args.states {
        return Err(ToolError::Usage(
            "--states tells of the threads of one trace; give one file".to_owned(),
        ));
    }
    let mut sum = Sum::default();
    let mut schema = Schema::of_sdk();
    let mut outcome = Outcome::Fine;
    let mut unreadable = None;
    for file in &args.files {
        match Reading::of(file, false, &mut schema) {
            Ok(reading) => {
                sum.add(file.clone(), &reading);
                if reading.damages.finish() != Outcome::Fine {
                    outcome = Outcome::Findings;
                }
            }
            // Read the other files all the same. The caller prints the last error.
            Err(error) => {
                if let Some(earlier) = unreadable.replace(error) {
                    eprintln!("error: {earlier}");
                }
            }
        }
    }
    if !sum.files.is_empty() {
        let report = Report {
            sum: &sum,
            schema: &schema,
            sort: args.sort,
            top,
        };
        let mut out = stdout();
        match args.json {
            true => json::print(&report, &mut out),
            false => text::print(&report, &mut out),
        }
        .and_then(|()| out.flush())
        .map_err(ToolError::Output)?;
    }
    match unreadable {
        Some(error) => Err(error),
        None => Ok(outcome),
    }
}

impl FileAccount {
    /// The kinds of losses, each with its name and its number in a file.
    const LOSSES: [(&'static str, Figure); 6] = [
        ("packet", |file| file.packets_lost),
        ("gap", |file| file.gaps),
        ("skipped packet", |file| file.packets_skipped),
        ("damaged place", |file| file.damages),
        ("kernel event", |file| file.kernel_events_lost),
        ("early end", |file| file.early_ends.len() as u64),
    ];

    fn has_losses(&self) -> bool {
        Self::LOSSES.iter().any(|(_, count)| count(self) > 0)
    }
}

impl Sum {
    fn add(&mut self, path: PathBuf, reading: &Reading) {
        let Reading {
            reader,
            summary,
            slices,
            damages,
            ..
        } = reading;
        let mut spans = 0;
        let of_file = [&summary.spans_on_threads, &summary.spans_on_tracks];
        for (rows, of_file) in self.spans.iter_mut().zip(of_file) {
            add_rows(rows, of_file, &mut self.names, reader.names(), |sum, it| {
                spans += it.count;
                sum.add_all(it);
            });
        }
        let instants = &summary.instants;
        add_rows(
            &mut self.instants,
            instants,
            &mut self.names,
            reader.names(),
            |sum, count| {
                *sum += count;
            },
        );
        let counters = reader.tracks().iter().zip(&summary.counters);
        for ((track, _), values) in counters {
            let Some(values) = values else { continue };
            let title = reader.tracks().title(track, reader.names());
            let name = self.names.intern(title);
            let unit = unit(track, reader.tracks(), reader.names());
            let unit = self.names.intern(unit);
            CounterSum::add(self.counters.row(name, unit), values);
        }
        for (field, kind) in &summary.packet_kinds {
            let has_room = self.packet_kinds.len() < MAX_PACKET_KINDS;
            let field = match has_room || self.packet_kinds.contains_key(field) {
                true => *field,
                false => OTHER_FIELDS,
            };
            let sum = self.packet_kinds.entry(field).or_default();
            sum.packets += kind.packets;
            sum.bytes += kind.bytes;
        }
        self.files.push(FileAccount {
            path,
            duration_ns: summary.duration_ns(),
            bytes: summary.bytes,
            packets: summary.packets,
            events: summary.events,
            spans,
            open_spans: slices.open().count() as u64,
            packets_lost: summary.losses.packets(),
            gaps: summary.losses.gaps(),
            kernel_events_lost: summary.kernel.lost(),
            damages: damages.count(),
            packets_skipped: summary.skipped.values().sum(),
            early_ends: summary.early_ends.clone(),
        });
    }

    /// Adds up a figure of all files.
    fn total(&self, of: impl Fn(&FileAccount) -> u64) -> u64 {
        self.files.iter().map(of).fold(0, u64::saturating_add)
    }

    fn lossy(&self) -> Vec<&FileAccount> {
        self.files.iter().filter(|file| file.has_losses()).collect()
    }

    /// Returns name, unit and values of the counters, by name.
    fn sorted_counters(&self) -> Vec<(&str, &str, CounterSum)> {
        let rows = named(&self.counters, &self.names).into_iter();
        let mut rows: Vec<_> = rows
            .filter_map(|(unit, name, values)| Some((name, unit, (*values)?)))
            .collect();
        rows.sort_by_key(|(name, unit, _)| (*name, *unit));
        rows
    }
}

impl CounterSum {
    fn add(sum: &mut Option<Self>, values: &CounterValues) {
        let sum = sum.get_or_insert(Self {
            count: 0,
            min: values.min,
            max: values.max,
            sum: 0.0,
        });
        sum.count += values.count;
        sum.min = sum.min.min(values.min);
        sum.max = sum.max.max(values.max);
        sum.sum += values.sum;
    }
}

/// Adds the rows of a file to those of all files.
fn add_rows<T: Default>(
    sums: &mut ByName<T>,
    rows: &ByName<T>,
    names: &mut NameTable,
    names_of_file: &NameTable,
    mut add: impl FnMut(&mut T, &T),
) {
    for row in rows.rows() {
        let name = names.intern(names_of_file.text(row.name));
        let category = names.intern(names_of_file.text(row.category));
        add(sums.row(name, category), &row.value);
    }
    if let Some(others) = rows.others() {
        add(sums.others_mut(), others);
    }
}
