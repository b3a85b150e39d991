//! Encodes a timeline as bytes for a page. `page/decode.js` decodes them.
//!
//! The data consists of columns of varints, one after the other. So similar numbers are next to
//! each other and compress well:
//!
//! ```text
//! version | length, JSON       tracks, losses and what the head of the page says
//! strings    count | lengths | bytes of all
//! labels     count | name of each | category of each           (strings)
//! rows       count | track, as differences | depth | number of events
//! events     count | start: nanoseconds after the end of the event before in the row, or after the
//!            begin of the trace | duration | label | argument set, as differences, 0 is none
//!            count | instants, as differences    count | unfinished slices, as differences
//! arguments  count | lengths | bytes of all                    (see `args.rs`)
//! flows      of begins: count | event, as differences | flow        of ends: the same
//! counters   count | each: track, count, 1 if integers | times, as differences | values: as signed
//!            differences if integers, else 8 bytes each
//! kernel     only if the trace has scheduling events     (see `kernel_lanes.rs`)
//! ```
//!
//! Labels with events are numbered by how often they occur. Argument sets are in the order of the
//! events that use them.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;

use super::args::ArgsId;
use super::coalesce::coalesce;
use super::columns::{write_column, write_differences, write_list, write_varint};
use super::kernel_lanes::KernelLanes;
use super::rows::{self, Event, Form, Row, Unplaced};
use super::timeline::{FlowList, LabelId, Timeline, Track};
use crate::units::seconds;

const FORMAT_VERSION: u64 = 2;
/// The maximum time. The page uses floating-point numbers, in which times since the begin of the
/// trace are exact up to this value.
const TIME_MAX_NS: u64 = (1 << 53) - 1;

/// The data in the head of the page, as JSON.
#[derive(Debug, Serialize)]
struct Head<'t> {
    title: &'t str,
    file_bytes: u64,
    duration_ns: u64,
    tracks: &'t [Track],
    losses: Vec<HeadLoss<'t>>,
    damage: Vec<HeadDamage<'t>>,
    notes: Vec<String>,
    left_out: String,
}

#[derive(Debug, Serialize)]
struct HeadLoss<'t> {
    tracks: Vec<u32>,
    start_ns: u64,
    end_ns: u64,
    text: &'t str,
}

#[derive(Debug, Serialize)]
struct HeadDamage<'t> {
    text: &'t str,
}

/// A timeline whose events are paired and in rows, ready to be written.
#[derive(Debug)]
pub(crate) struct Encoder {
    timeline: Timeline,
    rows: Vec<Row>,
    unplaced: Unplaced,
    kernel: Option<KernelLanes>,
    start_ns: u64,
    end_ns: u64,
}

impl Encoder {
    /// Pairs begins with ends, and puts events into rows.
    pub(crate) fn new(mut timeline: Timeline) -> Self {
        let (start_ns, end_ns) = bounds(&timeline);
        let (rows, unplaced) = rows::place(&mut timeline, end_ns);
        let rows = coalesce(&mut timeline, rows);
        let kernel = timeline.kernel.take();
        let kernel =
            kernel.map(|half| KernelLanes::new(&half, start_ns..end_ns, &mut timeline.strings));
        Self {
            timeline,
            rows,
            unplaced,
            kernel,
            start_ns,
            end_ns,
        }
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Returns the first and the last time that the page shows.
    #[cfg(test)]
    pub(crate) const fn bounds(&self) -> (u64, u64) {
        (self.start_ns, self.end_ns)
    }

    /// Returns the number of slices and instants.
    pub(crate) fn event_count(&self) -> u64 {
        self.rows.iter().map(|row| row.events.len() as u64).sum()
    }

    /// Returns the number of times on cores and of states of threads.
    pub(crate) fn piece_count(&self) -> u64 {
        self.kernel.as_ref().map_or(0, KernelLanes::piece_count)
    }

    /// Returns a message about what the page does not show in full; empty if it shows everything.
    pub(crate) fn left_out_text(&self) -> String {
        let kernel = self.kernel.as_ref().map(KernelLanes::merged_text);
        let texts = [self.events_left_out_text(), kernel.unwrap_or_default()];
        let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        texts.join(" ")
    }

    fn events_left_out_text(&self) -> String {
        let left_out = self.timeline.left_out();
        let timeline_start_ns = self.timeline.earliest_ns.unwrap_or(self.start_ns);
        if left_out.events == 0 {
            return String::new();
        }
        let events = match left_out.events {
            1 => "1 later event is".to_owned(),
            events => format!("{events} later events are"),
        };
        let from = seconds(left_out.from_ns.saturating_sub(timeline_start_ns));
        format!(
            "{events} left out: the page was made with a limit. `--from {from}` begins with the first \
             of them, `--max-events` raises the limit."
        )
    }

    /// Writes all columns.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write_varint(out, FORMAT_VERSION)?;
        let head = serde_json::to_string(&self.head())?;
        write_varint(out, head.len() as u64)?;
        out.write_all(head.as_bytes())?;
        self.write_strings(out)?;
        let label_numbers = self.write_labels(out)?;
        self.write_rows(out)?;
        let sets = self.write_events(out, &label_numbers)?;
        self.write_args(out, &sets)?;
        self.write_flows(out)?;
        self.write_counters(out)?;
        match &self.kernel {
            Some(kernel) => kernel.write(|time_ns| self.since_start(time_ns), out),
            None => Ok(()),
        }
    }

    fn head(&self) -> Head<'_> {
        let timeline = &self.timeline;
        let losses = timeline.losses.iter().map(|loss| HeadLoss {
            tracks: loss.tracks.iter().map(|track| track.0).collect(),
            start_ns: self.since_start(loss.start_ns),
            end_ns: self.since_start(loss.end_ns),
            text: &loss.text,
        });
        let damage = timeline.damage.iter().map(|text| HeadDamage { text });
        Head {
            title: &timeline.title,
            file_bytes: timeline.file_bytes,
            duration_ns: self.since_start(self.end_ns),
            tracks: &timeline.tracks,
            losses: losses.collect(),
            damage: damage.collect(),
            notes: self.notes(),
            left_out: self.left_out_text(),
        }
    }

    /// Returns notes about what is not in the page, and why.
    fn notes(&self) -> Vec<String> {
        let timeline = &self.timeline;
        let mut notes = timeline.notes.clone();
        let ends = self.unplaced.ends_without_begin + timeline.ends_left_out;
        let limit = rows::DEPTH_MAX;
        let counted = [
            (ends, "ends of slices have no begin".to_owned()),
            (
                self.unplaced.too_deep,
                format!("slices are not shown: they nest deeper than {limit}"),
            ),
            (
                timeline.strings.left_out(),
                "texts are not shown: there are too many different ones".to_owned(),
            ),
            (
                timeline.args.left_out(),
                "sets of arguments are not shown: there are too many different ones".to_owned(),
            ),
            (
                timeline.flows_left_out,
                "links of flows are not shown: there are too many".to_owned(),
            ),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        notes.extend(counted.map(|(count, what)| format!("{count} {what}")));
        notes
    }

    fn write_strings(&self, out: &mut impl Write) -> io::Result<()> {
        let strings = &self.timeline.strings;
        write_list(out, strings.iter().map(|text| text.len() as u64))?;
        strings
            .iter()
            .try_for_each(|text| out.write_all(text.as_bytes()))
    }

    /// Writes the labels that have events. Returns the number that each label has in the page; the
    /// result has 0 for labels without events.
    fn write_labels(&self, out: &mut impl Write) -> io::Result<Vec<u64>> {
        let labels = &self.timeline.labels;
        let mut uses = vec![0_u64; labels.len()];
        for event in self.events() {
            uses[event.label.0 as usize] += 1;
        }
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.retain(|&label| uses[label] > 0);
        order.sort_by_key(|&label| std::cmp::Reverse(uses[label]));
        let mut numbers = vec![0; labels.len()];
        for (number, &label) in order.iter().enumerate() {
            numbers[label] = number as u64;
        }
        write_list(out, order.iter().map(|&label| u64::from(labels[label].0.0)))?;
        write_column(out, order.iter().map(|&label| u64::from(labels[label].1.0)))?;
        Ok(numbers)
    }

    fn write_rows(&self, out: &mut impl Write) -> io::Result<()> {
        let rows = &self.rows;
        write_varint(out, rows.len() as u64)?;
        write_differences(out, rows.iter().map(|row| i64::from(row.track.0)))?;
        write_column(out, rows.iter().map(|row| row.depth as u64))?;
        write_column(out, rows.iter().map(|row| row.events.len() as u64))
    }

    /// Writes the events. Returns the argument sets in the order of the page.
    fn write_events(&self, out: &mut impl Write, label_numbers: &[u64]) -> io::Result<Vec<ArgsId>> {
        write_varint(out, self.event_count())?;
        for row in &self.rows {
            let mut end_before_ns = 0;
            for event in &row.events {
                // Events of a row may overlap if a time was out of bounds. Then move this event
                // behind the event before it.
                let start_ns = self.since_start(event.start_ns).max(end_before_ns);
                write_varint(out, start_ns - end_before_ns)?;
                end_before_ns = self.end_of(event, start_ns);
            }
        }
        for row in &self.rows {
            let mut end_before_ns = 0;
            for event in &row.events {
                let start_ns = self.since_start(event.start_ns).max(end_before_ns);
                end_before_ns = self.end_of(event, start_ns);
                write_varint(out, end_before_ns - start_ns)?;
            }
        }
        write_column(
            out,
            self.events()
                .map(|event| label_of(event.label, label_numbers)),
        )?;
        let mut sets = Vec::new();
        let mut numbers: HashMap<ArgsId, i64> = HashMap::from([(ArgsId::NONE, 0)]);
        let args = self.events().map(|event| {
            *numbers.entry(event.args).or_insert_with(|| {
                sets.push(event.args);
                sets.len() as i64
            })
        });
        write_differences(out, args)?;
        self.write_places(out, Form::Instant)?;
        self.write_places(out, Form::Unfinished)?;
        Ok(sets)
    }

    /// Writes the positions, among all events, of the events that have this form.
    fn write_places(&self, out: &mut impl Write, form: Form) -> io::Result<()> {
        let count = self.events().filter(|event| event.form == form).count();
        write_varint(out, count as u64)?;
        let places = (0_i64..).zip(self.events());
        let chosen = places.filter(|(_, event)| event.form == form);
        write_differences(out, chosen.map(|(place, _)| place))
    }

    fn write_args(&self, out: &mut impl Write, sets: &[ArgsId]) -> io::Result<()> {
        let bytes_of = |set: &ArgsId| self.timeline.args.bytes_of(*set);
        write_list(out, sets.iter().map(|set| bytes_of(set).len() as u64))?;
        sets.iter().try_for_each(|set| out.write_all(bytes_of(set)))
    }

    fn write_flows(&self, out: &mut impl Write) -> io::Result<()> {
        let mut numbers = HashMap::new();
        self.write_flow_links(out, FlowList::at_begin, &mut numbers)?;
        self.write_flow_links(out, FlowList::at_end, &mut numbers)
    }

    /// Writes the links between events and flows: those of begins or those of ends, as `flows_of`
    /// selects. `numbers` has the number of each flow in the page; new flows are added to it.
    fn write_flow_links(
        &self,
        out: &mut impl Write,
        flows_of: fn(&FlowList) -> &[u64],
        numbers: &mut HashMap<u64, u64>,
    ) -> io::Result<()> {
        let mut links = Vec::new();
        for (place, event) in (0_i64..).zip(self.events()) {
            let Some(list) = event.flows.checked_sub(1) else {
                continue;
            };
            for flow in flows_of(&self.timeline.flow_lists[list as usize]) {
                let next = numbers.len() as u64;
                links.push((place, *numbers.entry(*flow).or_insert(next)));
            }
        }
        write_varint(out, links.len() as u64)?;
        write_differences(out, links.iter().map(|(place, _)| *place))?;
        write_column(out, links.iter().map(|(_, flow)| *flow))
    }

    fn write_counters(&self, out: &mut impl Write) -> io::Result<()> {
        let counters = (0_u64..).zip(&self.timeline.counters);
        let filled: Vec<_> = counters.filter(|(_, values)| !values.is_empty()).collect();
        write_varint(out, filled.len() as u64)?;
        for (track, values) in filled {
            self.write_counter(out, track, values)?;
        }
        Ok(())
    }

    fn write_counter(
        &self,
        out: &mut impl Write,
        track: u64,
        values: &[(u64, f64)],
    ) -> io::Result<()> {
        let mut values = values.to_vec();
        values.sort_by_key(|(time_ns, _)| *time_ns);
        let integers = values.iter().all(|(_, value)| is_small_integer(*value));
        write_column(
            out,
            [track, values.len() as u64, u64::from(integers)].into_iter(),
        )?;
        let mut before_ns = 0;
        for (time_ns, _) in &values {
            let time_ns = self.since_start(*time_ns);
            write_varint(out, time_ns - before_ns)?;
            before_ns = time_ns;
        }
        if integers {
            return write_differences(out, values.iter().map(|(_, value)| *value as i64));
        }
        values
            .iter()
            .try_for_each(|(_, value)| out.write_all(&value.to_le_bytes()))
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.rows.iter().flat_map(|row| &row.events)
    }

    fn since_start(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.start_ns).min(TIME_MAX_NS)
    }

    fn end_of(&self, event: &Event, start_ns: u64) -> u64 {
        start_ns
            .saturating_add(event.duration_ns)
            .min(TIME_MAX_NS.max(start_ns))
    }
}

fn label_of(label: LabelId, numbers: &[u64]) -> u64 {
    numbers[label.0 as usize]
}

/// Returns true for values whose differences are exact, also in the page: with zigzag encoding, the
/// differences have at most 53 bits, as many as the page's floating-point numbers.
fn is_small_integer(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < (1_u64 << 51) as f64
}

/// Returns the first and the last time of a timeline. Times of the kernel before the first event are
/// not shown, so that times count from the first event whether or not a trace has the kernel's half.
fn bounds(timeline: &Timeline) -> (u64, u64) {
    let events = timeline.events.iter().flatten().map(|event| event.time_ns);
    let values = timeline
        .counters
        .iter()
        .flatten()
        .map(|(time_ns, _)| *time_ns);
    let (start_ns, end_ns) = events
        .chain(values)
        .fold((u64::MAX, 0), |(start_ns, end_ns), time_ns| {
            (start_ns.min(time_ns), end_ns.max(time_ns))
        });
    let kernel = timeline.kernel.as_ref().map(|half| &half.range);
    match kernel.filter(|range| !range.is_empty()) {
        Some(range) if start_ns > end_ns => (range.start, range.end),
        Some(range) => (start_ns, end_ns.max(range.end)),
        None if start_ns > end_ns => (0, 0),
        None => (start_ns, end_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::columns::decoding::Columns;
    use crate::view::columns::zigzag;
    use crate::view::timeline::{EventFacts, Track, TrackIndex};

    fn timeline() -> Timeline {
        let mut timeline = Timeline::new("demo".to_owned(), 7, 100);
        timeline.ensure_tracks(2);
        let (track, counter) = (TrackIndex(0), TrackIndex(1));
        timeline.tracks[0] = Track {
            name: "main".to_owned(),
            kind: "thread",
            ..Track::default()
        };
        let (rare, frequent) = (timeline.label("rare", "c"), timeline.label("frequent", "c"));
        let facts = |time_ns, label, flows| EventFacts {
            track,
            time_ns,
            label,
            args: ArgsId::NONE,
            flows,
        };
        timeline.begin(facts(1000, rare, &[]));
        timeline.begin(facts(1010, frequent, &[77]));
        timeline.end(facts(1030, frequent, &[]));
        timeline.instant(facts(1040, frequent, &[77]));
        timeline.end(facts(1100, rare, &[77]));
        timeline.counter(counter, 1050, 5.0);
        timeline.counter(counter, 1000, 7.0);
        timeline
    }

    #[test]
    fn columns_are_as_the_module_docs_describe() {
        let mut bytes = Vec::new();
        Encoder::new(timeline()).write(&mut bytes).unwrap();
        let mut columns = Columns(&bytes);
        assert_eq!(columns.varint(), FORMAT_VERSION);
        let length = columns.varint();
        let head: serde_json::Value = serde_json::from_str(&columns.text(length)).unwrap();
        assert_eq!(head["duration_ns"], 100);
        assert_eq!(head["tracks"][0]["name"], "main");

        let lengths = columns.list();
        let strings: Vec<_> = lengths
            .into_iter()
            .map(|length| columns.text(length))
            .collect();
        assert_eq!(strings, ["", "rare", "c", "frequent"]);
        assert_eq!(columns.list(), [3, 1], "the frequent label comes first");
        assert_eq!(columns.column(2), [2, 2]);

        assert_eq!(columns.varint(), 2);
        assert_eq!(columns.column(2), [0, 0], "tracks");
        assert_eq!(columns.column(2), [0, 1], "depths");
        assert_eq!(columns.column(2), [1, 2], "events");

        assert_eq!(columns.varint(), 3);
        assert_eq!(columns.column(3), [0, 10, 10], "starts");
        assert_eq!(columns.column(3), [100, 20, 0], "durations");
        assert_eq!(columns.column(3), [1, 0, 0], "labels");
        assert_eq!(columns.column(3), [0, 0, 0], "arguments");
        assert_eq!(columns.list(), [4], "the third is an instant");
        assert!(columns.list().is_empty(), "none is unfinished");

        assert!(columns.list().is_empty(), "no argument sets");
        assert_eq!(columns.varint(), 2);
        assert_eq!(columns.column(2), [2, 2], "events of flows at their begins");
        assert_eq!(columns.column(2), [0, 0], "flows");
        assert_eq!(columns.varint(), 1);
        assert_eq!(columns.column(2), [0, 0], "the first ends with the flow");

        assert_eq!(columns.list(), [1], "one counter, on the second track");
        assert_eq!(columns.column(2), [2, 1], "two integers");
        assert_eq!(columns.column(2), [0, 50], "times");
        assert_eq!(columns.column(2), [14, 3], "values");
        assert!(columns.0.is_empty());
    }

    #[test]
    fn times_at_the_bounds_of_their_type_stay_in_order() {
        let mut timeline = Timeline::new(String::new(), 0, 100);
        timeline.ensure_tracks(1);
        let track = TrackIndex(0);
        let label = timeline.label("a", "");
        for time_ns in [0, 1, u64::MAX - 1, u64::MAX] {
            timeline.instant(EventFacts {
                track,
                time_ns,
                label,
                args: ArgsId::NONE,
                flows: &[],
            });
        }
        let encoder = Encoder::new(timeline);
        let mut bytes = Vec::new();
        encoder.write(&mut bytes).unwrap();
        assert_eq!(encoder.head().duration_ns, TIME_MAX_NS);
    }

    #[test]
    fn differences_of_small_integers_are_exact_in_floating_numbers() {
        let largest = (1_i64 << 51) - 1;
        assert!(is_small_integer(largest as f64) && is_small_integer(-largest as f64));
        assert!(!is_small_integer((largest + 1) as f64) && !is_small_integer(0.5));
        for difference in [2 * largest, -2 * largest] {
            assert!(zigzag(difference) < 1 << 53);
        }
    }

    #[test]
    fn an_empty_timeline_has_empty_columns() {
        let encoder = Encoder::new(Timeline::new(String::new(), 0, 100));
        let mut bytes = Vec::new();
        encoder.write(&mut bytes).unwrap();
        assert_eq!(encoder.event_count(), 0);
        assert_eq!(encoder.head().duration_ns, 0);
    }

    #[test]
    fn message_about_the_limit_says_how_to_see_the_rest() {
        let mut timeline = Timeline::new(String::new(), 0, 1);
        timeline.ensure_tracks(1);
        let track = TrackIndex(0);
        timeline.counter(track, 1_000_000_000, 1.0);
        timeline.counter(track, 3_500_000_007, 1.0);
        let text = Encoder::new(timeline).left_out_text();
        assert!(text.starts_with("1 later event is left out"), "{text}");
        assert!(text.contains("`--from 2.500000007`"), "{text}");
    }
}
