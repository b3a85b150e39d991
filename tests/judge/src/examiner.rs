//! Reads the packets of a trace in file order and applies the rules.

use std::collections::{BTreeMap, HashMap};

use perfetto_protos::clock_snapshot::ClockSnapshot;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_packet::trace_packet::{Data, SequenceFlags};
use perfetto_protos::track_descriptor::TrackDescriptor;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::{
    Counter_value_field, Name_field, Source_location_field, Type,
};
use protobuf::{CodedInputStream, Enum, UnknownValueRef};

use crate::args::arg_rows;
use crate::clocks::{self, BOOTTIME, GlobalClocks};
use crate::file::{Unreadable, next_packet};
use crate::problem::Place;
use crate::schema::Supplements;
use crate::sequence::{IncrementalState, Sequence};
use crate::texts::Texts;
use crate::tracks::{self, Tracks};
use crate::verdict::CounterSample;
use crate::walk::walk;
use crate::{
    Counts, Custom, Event, EventKind, ExtraSchema, Loss, Options, Problem, Rule, Value, Verdict,
};

/// The sequence of the service's own packets.
const SERVICE: u32 = 1;

/// The fields of the packets that the service writes before any data.
const PREAMBLE: [&str; 4] = [
    "clock_snapshot",
    "trace_config",
    "trace_uuid",
    "system_info",
];

pub(crate) fn examine(
    trace_bytes: &[u8],
    extra: &ExtraSchema,
    options: Options,
) -> Result<Verdict, Vec<Problem>> {
    let mut examiner = Examiner::new(extra, options);
    examiner.trace(trace_bytes);
    examiner.finish()
}

/// Counts the content of a trace without judging it. Does not look inside compressed packets.
#[must_use]
pub fn counts(trace_bytes: &[u8]) -> Counts {
    let extra = ExtraSchema::new();
    let mut examiner = Examiner::new(&extra, Options::default());
    examiner.trace(trace_bytes);
    Counts::of_verdict(&examiner.verdict, trace_bytes)
}

/// Reads a trace without judging it. Returns its content, and its tracks by uuid.
pub(crate) fn read(
    trace_bytes: &[u8],
    extra: &ExtraSchema,
) -> (Verdict, HashMap<u64, TrackDescriptor>) {
    let mut examiner = Examiner::new(extra, Options::default());
    examiner.trace(trace_bytes);
    examiner.resolve();
    (examiner.verdict, examiner.tracks.into_descriptors())
}

struct Examiner<'a> {
    options: Options,
    supplements: Supplements<'a>,
    problems: Vec<Problem>,
    clocks: GlobalClocks,
    sequences: BTreeMap<u32, Sequence>,
    tracks: Tracks,
    preamble_missing: Vec<&'static str>,
    verdict: Verdict,
}

impl<'a> Examiner<'a> {
    fn new(extra: &'a ExtraSchema, options: Options) -> Self {
        Self {
            options,
            supplements: Supplements::new(extra),
            problems: Vec::new(),
            clocks: GlobalClocks::default(),
            sequences: BTreeMap::new(),
            tracks: Tracks::default(),
            preamble_missing: PREAMBLE.to_vec(),
            verdict: Verdict::default(),
        }
    }

    fn trace(&mut self, trace_bytes: &[u8]) {
        let mut input = CodedInputStream::from_bytes(trace_bytes);
        let mut index = 0;
        loop {
            let place = Place {
                packet: index,
                sequence_id: None,
            };
            match next_packet(&mut input) {
                Ok(None) => return,
                Ok(Some((packet, loss_reasons))) => self.packet(place, packet, loss_reasons),
                Err(Unreadable::Packet(text)) => {
                    self.problems.push(place.object(Rule::Decodes, text));
                }
                Err(Unreadable::Trace(text)) => {
                    self.problems.push(place.object(Rule::Decodes, text));
                    return;
                }
            }
            index += 1;
        }
    }

    fn packet(&mut self, mut place: Place, packet: TracePacket, loss_reasons: u64) {
        let sequence_id = packet.trusted_packet_sequence_id();
        if packet.has_trusted_packet_sequence_id() {
            place.sequence_id = Some(sequence_id);
        }
        let findings = walk(&packet, &self.supplements);
        self.problems.extend(
            findings
                .objections
                .into_iter()
                .map(|(rule, text)| place.object(rule, text)),
        );
        self.payload_fits_sequence(place, &packet);
        if sequence_id == 0 {
            self.problems
                .push(place.object(Rule::SequenceId, "no sequence id"));
            self.verdict.packets.push(packet);
            return;
        }
        self.preamble(place, &packet);

        let mut sequence = self.sequences.remove(&sequence_id).unwrap_or_default();
        if self.sequence_state(place, &packet, &mut sequence, loss_reasons) {
            for reference in &findings.references {
                self.reference(place, &sequence, reference.table, reference.iid);
            }
            if !findings.references.is_empty() {
                self.dependence(place, &packet, "interned ids");
            }
            let timestamp_ns = self.timestamp(place, &packet, &mut sequence);
            let custom = findings
                .custom
                .into_iter()
                .map(|(extended, fields)| Custom {
                    packet: place.packet,
                    sequence_id,
                    timestamp_ns,
                    extended,
                    fields,
                });
            self.verdict.custom.extend(custom);
            self.verdict.own.extend(findings.own);
            self.data(place, &packet, &sequence, timestamp_ns);
        }
        sequence.packets += 1;
        self.sequences.insert(sequence_id, sequence);
        self.verdict.packets.push(packet);
    }

    /// Checks that the service's payloads are on sequence 1, and those of producers are not.
    fn payload_fits_sequence(&mut self, place: Place, packet: &TracePacket) {
        let (name, is_services) = match &packet.data {
            Some(Data::TraceConfig(_)) => ("trace_config", true),
            Some(Data::TraceUuid(_)) => ("trace_uuid", true),
            Some(Data::TraceStats(_)) => ("trace_stats", true),
            Some(Data::SystemInfo(_)) => ("system_info", true),
            Some(Data::ServiceEvent(_)) => ("service_event", true),
            Some(Data::SynchronizationMarker(_)) => ("synchronization_marker", true),
            Some(Data::TrackEvent(_)) => ("track_event", false),
            Some(Data::TrackDescriptor(_)) => ("track_descriptor", false),
            Some(Data::ForTesting(_)) => ("for_testing", false),
            Some(Data::CompressedPackets(_)) => {
                let text = "compressed packets are not looked into";
                self.problems.push(place.object(Rule::Decodes, text));
                return;
            }
            _ => return,
        };
        if is_services != (packet.trusted_packet_sequence_id() == SERVICE) {
            let text = format!("{name} does not belong on this sequence");
            self.problems.push(place.object(Rule::SequenceId, text));
        }
    }

    fn preamble(&mut self, place: Place, packet: &TracePacket) {
        if place.sequence_id == Some(SERVICE) {
            let name = match &packet.data {
                Some(Data::ClockSnapshot(_)) => "clock_snapshot",
                Some(Data::TraceConfig(_)) => "trace_config",
                Some(Data::TraceUuid(_)) => "trace_uuid",
                Some(Data::SystemInfo(_)) => "system_info",
                _ => return,
            };
            self.preamble_missing.retain(|missing| *missing != name);
        } else {
            for missing in std::mem::take(&mut self.preamble_missing) {
                let text = format!("data comes before {missing}");
                self.problems.push(place.object(Rule::Preamble, text));
            }
        }
    }

    /// Updates the sequence's incremental state by this packet. Returns false if the packet must be
    /// left out.
    fn sequence_state(
        &mut self,
        place: Place,
        packet: &TracePacket,
        sequence: &mut Sequence,
        loss_reasons: u64,
    ) -> bool {
        let sequence_id = packet.trusted_packet_sequence_id();
        if packet.first_packet_on_sequence() && sequence.packets > 0 {
            let text = format!("flagged as the first after {} others", sequence.packets);
            self.problems.push(place.object(Rule::FirstPacket, text));
        }
        if sequence.packets == 0 && !packet.first_packet_on_sequence() {
            sequence.has_losses = true;
        }
        if loss_reasons != 0 {
            let loss = Loss {
                packet: place.packet,
                sequence_id,
                reasons: loss_reasons,
            };
            self.verdict.losses.push(loss);
            sequence.has_losses = true;
            sequence.state = None;
        }
        if is_flagged(packet, SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED) {
            sequence.clears += 1;
            sequence.state = Some(IncrementalState::default());
        }
        if is_flagged(packet, SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE)
            && sequence.state.is_none()
        {
            self.verdict.unreadable_packets += 1;
            if !(self.options.allow_unreadable_after_loss && sequence.has_losses) {
                let text = "needs incremental state, and none is valid";
                self.problems
                    .push(place.object(Rule::IncrementalState, text));
            }
            return false;
        }
        self.definitions(place, packet, sequence);
        true
    }

    fn definitions(&mut self, place: Place, packet: &TracePacket, sequence: &mut Sequence) {
        let snapshot = match &packet.data {
            Some(Data::ClockSnapshot(snapshot)) => Some(snapshot),
            _ => None,
        };
        if let Some(snapshot) = snapshot {
            self.clocks.add(snapshot);
        }
        let Some(state) = &mut sequence.state else {
            if packet.trace_packet_defaults.is_some() || packet.interned_data.is_some() {
                let text = "definitions before the sequence's state was cleared";
                self.problems
                    .push(place.object(Rule::IncrementalState, text));
            }
            return;
        };
        if let Some(defaults) = packet.trace_packet_defaults.as_ref() {
            state.defaults = defaults.clone();
        }
        if let Some(interned) = packet.interned_data.as_ref() {
            let objections = state.define(interned);
            self.problems.extend(
                objections
                    .into_iter()
                    .map(|text| place.object(Rule::Interning, text)),
            );
        }
        if let Some(Err(text)) =
            snapshot.map(|snapshot: &ClockSnapshot| state.clocks.add(snapshot, &self.clocks))
        {
            self.problems.push(place.object(Rule::Clock, text));
        }
    }

    fn reference(&mut self, place: Place, sequence: &Sequence, table: &str, iid: u64) {
        let state = sequence.state.as_ref();
        if state.and_then(|state| state.interned(table, iid)).is_none() {
            let text = format!("id {iid} is not defined in {table}");
            self.problems.push(place.object(Rule::Interning, text));
        }
    }

    /// Checks that a packet that depends on earlier ones says so, or clears the incremental state
    /// itself.
    fn dependence(&mut self, place: Place, packet: &TracePacket, on: &str) {
        if packet.sequence_flags() == 0 {
            let text = format!("depends on {on} without SEQ_NEEDS_INCREMENTAL_STATE");
            self.problems
                .push(place.object(Rule::IncrementalState, text));
        }
    }

    /// Returns `None` if the packet has no timestamp, or if its clock is unknown.
    fn timestamp(
        &mut self,
        place: Place,
        packet: &TracePacket,
        sequence: &mut Sequence,
    ) -> Option<u64> {
        // The time of a clock snapshot is given by its clocks.
        if matches!(packet.data, Some(Data::ClockSnapshot(_))) {
            return None;
        }
        let timestamp = packet.timestamp?;
        let state = sequence.state.as_mut();
        let default = state
            .as_ref()
            .and_then(|state| state.defaults.timestamp_clock_id);
        if packet.timestamp_clock_id.is_none() && default.is_some() {
            self.dependence(place, packet, "a default clock");
        }
        let clock_id = packet.timestamp_clock_id.or(default).unwrap_or(BOOTTIME);
        let own = state.map(|state| &mut state.clocks);
        match clocks::resolve(clock_id, timestamp, own, &self.clocks) {
            Ok(timestamp_ns) => Some(timestamp_ns),
            Err(text) => {
                self.problems.push(place.object(Rule::Clock, text));
                // Some SDKs write no snapshot of clocks. Times on the trace clock need none.
                (clock_id == BOOTTIME).then_some(timestamp)
            }
        }
    }

    fn data(
        &mut self,
        place: Place,
        packet: &TracePacket,
        sequence: &Sequence,
        timestamp_ns: Option<u64>,
    ) {
        if packet.trusted_packet_sequence_id() != SERVICE && is_data(packet) {
            self.verdict.data_packets += 1;
        }
        match &packet.data {
            Some(Data::TraceConfig(config)) => self.verdict.trace_config = Some(config.clone()),
            Some(Data::TraceStats(stats)) => self.verdict.trace_stats = Some(stats.clone()),
            Some(Data::TrackDescriptor(descriptor)) => self.tracks.describe(descriptor),
            Some(Data::TrackEvent(event)) => {
                if packet.timestamp.is_none() {
                    self.problems
                        .push(place.object(Rule::Event, "an event without a time"));
                }
                if let Some(timestamp_ns) = timestamp_ns {
                    self.event(place, packet, event, sequence, timestamp_ns);
                }
            }
            _ => {}
        }
    }

    fn event(
        &mut self,
        place: Place,
        packet: &TracePacket,
        event: &TrackEvent,
        sequence: &Sequence,
        timestamp_ns: u64,
    ) {
        let kind = match event.type_() {
            Type::TYPE_SLICE_BEGIN => EventKind::SliceBegin,
            Type::TYPE_SLICE_END => EventKind::SliceEnd,
            Type::TYPE_INSTANT => EventKind::Instant,
            Type::TYPE_COUNTER => EventKind::Counter,
            Type::TYPE_UNSPECIFIED => {
                self.problems
                    .push(place.object(Rule::Event, "an event without a type"));
                return;
            }
        };
        let no_defaults = Default::default();
        let defaults = sequence
            .state
            .as_ref()
            .and_then(|state| state.defaults.track_event_defaults.as_ref())
            .unwrap_or(&no_defaults);
        if event.track_uuid.is_none() && defaults.track_uuid.is_some() {
            self.dependence(place, packet, "a default track");
        }
        let texts = Texts { sequence };
        let extra_counters = if event.extra_counter_track_uuids.is_empty() {
            &defaults.extra_counter_track_uuids
        } else {
            &event.extra_counter_track_uuids
        };
        if event.extra_counter_values.len() > extra_counters.len() {
            let text = "more extra counter values than tracks for them";
            self.problems.push(place.object(Rule::Counter, text));
        }
        let values = event.extra_counter_values.iter();
        let values = values.map(|value| Value::Int(*value));
        for (&track_uuid, value) in extra_counters.iter().zip(values) {
            self.verdict.extra_samples.push(CounterSample {
                place,
                track_uuid,
                value,
                clears: sequence.clears,
            });
            self.verdict.extra_values += 1;
        }
        let mut categories: Vec<String> = event
            .category_iids
            .iter()
            .filter_map(|iid| texts.of("event_categories", *iid))
            .collect();
        categories.extend(event.categories.iter().cloned());
        self.verdict.events.push(Event {
            packet: place.packet,
            sequence_id: packet.trusted_packet_sequence_id(),
            timestamp_ns,
            kind,
            track_uuid: event.track_uuid.or(defaults.track_uuid).unwrap_or(0),
            track_name: None,
            thread_name: None,
            categories,
            name: match &event.name_field {
                Some(Name_field::Name(name)) => Some(name.clone()),
                Some(Name_field::NameIid(iid)) => texts.of("event_names", *iid),
                _ => None,
            },
            args: event
                .debug_annotations
                .iter()
                .map(|arg| texts.argument(arg))
                .collect(),
            counter: match event.counter_value_field {
                Some(Counter_value_field::CounterValue(value)) => Some(Value::Int(value)),
                Some(Counter_value_field::DoubleCounterValue(value)) => Some(Value::Double(value)),
                _ => None,
            },
            flow_ids: event.flow_ids.clone(),
            terminating_flow_ids: event.terminating_flow_ids.clone(),
            source_location: match &event.source_location_field {
                Some(Source_location_field::SourceLocation(location)) => Some(location.clone()),
                Some(Source_location_field::SourceLocationIid(iid)) => texts.location(*iid),
                _ => None,
            },
            clears: sequence.clears,
            arg_rows: arg_rows(event, &texts),
        });
    }

    fn resolve(&mut self) {
        let Verdict {
            events,
            extra_samples,
            ..
        } = &mut self.verdict;
        self.tracks
            .resolve(events, extra_samples, &mut self.problems);
    }

    fn finish(mut self) -> Result<Verdict, Vec<Problem>> {
        for missing in std::mem::take(&mut self.preamble_missing) {
            self.problems.push(Problem {
                packet: None,
                sequence_id: Some(SERVICE),
                rule: Rule::Preamble,
                text: format!("the trace has no {missing}"),
            });
        }
        let ignores_lost_begins = self.options.allow_unreadable_after_loss
            && self
                .sequences
                .iter()
                .any(|(id, sequence)| *id != SERVICE && sequence.has_losses);
        self.resolve();
        self.verdict.open_spans = tracks::pair_spans(
            &self.verdict.events,
            ignores_lost_begins,
            &mut self.problems,
        );
        if !self.options.allow_open_spans {
            self.problems
                .extend(self.verdict.open_spans.iter().map(|span| Problem {
                    packet: Some(span.packet),
                    sequence_id: Some(span.sequence_id),
                    rule: Rule::Spans,
                    text: format!("{:?} on track {} has no end", span.name, span.track_uuid),
                }));
        }
        let sequences = self.sequences.iter();
        self.verdict.packets_per_sequence = sequences
            .map(|(id, sequence)| (*id, sequence.packets))
            .collect();
        if self.problems.is_empty() {
            Ok(self.verdict)
        } else {
            Err(self.problems)
        }
    }
}

/// Returns true if a packet contains data of a data source: not a track event, and not metadata
/// that other packets are read with.
fn is_data(packet: &TracePacket) -> bool {
    let mut unknown = packet.special_fields.unknown_fields().iter();
    match &packet.data {
        Some(Data::TrackEvent(_)) => false,
        None | Some(Data::TrackDescriptor(_) | Data::ClockSnapshot(_)) => {
            unknown.any(|(_, value)| matches!(value, UnknownValueRef::LengthDelimited(_)))
        }
        Some(_) => true,
    }
}

fn is_flagged(packet: &TracePacket, flag: SequenceFlags) -> bool {
    packet.sequence_flags() & flag.value().cast_unsigned() != 0
}
