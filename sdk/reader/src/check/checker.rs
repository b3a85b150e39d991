//! Reads a trace and applies the rules.

use std::fmt;
use std::io::Read;

use super::finding::{Finding, Level, Rule};
use super::flows::Flows;
use super::nesting::Nesting;
use super::references::{Fault, References};
use super::schemas;
use super::sequences::SequenceStates;
use super::tracks::TrackUses;
use crate::anomaly::Anomaly;
use crate::damage::Damage;
use crate::error::ReadError;
use crate::event::Event;
use crate::fields;
use crate::packet::PacketHead;
use crate::place::PacketPlace;
use crate::record::{Loss, OtherPacket, Record};
use crate::recordings::RecordingEnd;
use crate::skip_reason::SkipReason;
use crate::trace_reader::{Step, TraceReader};
use crate::trace_state::TraceState;

/// The maximum number of findings of each rule that [`check`] reports one by one. Further ones are only
/// counted.
pub const FINDINGS_PER_RULE: u64 = 1000;

/// The id of the sequence of the service's own packets.
const SERVICE: u32 = 1;

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckSummary {
    /// The number of packets of the trace.
    pub packets: u64,
    /// The number of events that could be decoded.
    pub events: u64,
    /// The number of sequences.
    pub sequences: u64,
    /// The number of packets that could not be decoded.
    pub skipped: u64,
    /// The number of findings of [`Level::Error`].
    pub errors: u64,
    /// The number of findings of [`Level::Note`].
    pub notes: u64,
    /// The number of errors and notes that [`check`] did not report, because their rule had more than
    /// [`FINDINGS_PER_RULE`] findings.
    pub not_reported: u64,
}

/// Checks a trace of any length. Calls `report` for each finding.
///
/// ```
/// use tracezero::reader::check;
/// use tracezero::{InMemorySession, span};
///
/// let session = InMemorySession::start()?;
/// drop(span!("app", "work"));
/// let (trace, _) = session.finish();
///
/// let summary = check(&trace[..], |finding| println!("{finding}"))?;
/// assert_eq!((summary.events, summary.errors), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the source fails, is not a trace, or is compressed in a format that this build cannot unpack.
pub fn check<R: Read>(
    source: R,
    mut report: impl FnMut(&Finding),
) -> Result<CheckSummary, ReadError> {
    let mut per_rule = [0; Rule::ALL.len()];
    let mut not_reported = 0;
    let mut reader = TraceReader::new(source);
    let mut checker = Checker::new(|finding: &Finding| {
        let count: &mut u64 = &mut per_rule[finding.rule as usize];
        *count += 1;
        if *count > FINDINGS_PER_RULE {
            not_reported += 1;
        } else {
            report(finding);
        }
    });
    while checker.next(&mut reader)?.is_some() {}
    let summary = checker.finish(&reader);
    Ok(CheckSummary {
        not_reported,
        ..summary
    })
}

/// Counts findings, and reports them.
struct Reporter<F> {
    report: F,
    summary: CheckSummary,
}

impl<F: FnMut(&Finding)> Reporter<F> {
    fn add(&mut self, finding: &Finding) {
        match finding.level {
            Level::Error => self.summary.errors += 1,
            Level::Note => self.summary.notes += 1,
        }
        (self.report)(finding);
    }
}

/// Checks a trace while the caller reads it. [`check`] is simpler for all other cases.
///
/// ```
/// use tracezero::reader::{Checker, Record, TraceReader};
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "started");
/// let (trace, _) = session.finish();
///
/// let mut reader = TraceReader::new(&trace[..]);
/// let mut checker = Checker::new(|finding| println!("{finding}"));
/// let mut events = 0;
/// while let Some(record) = checker.next(&mut reader)? {
///     events += u64::from(matches!(record, Record::Event(_)));
/// }
/// let summary = checker.finish(&reader);
/// assert_eq!((summary.events, summary.errors), (events, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Checker<F> {
    report: Reporter<F>,
    sequences: SequenceStates,
    /// True if the trace so far lacks packets, or the beginning of a sequence.
    has_losses: bool,
    tracks: TrackUses,
    nesting: Nesting,
    flows: Flows,
    invalid_texts: u64,
}

/// The packet that is being checked.
#[derive(Clone, Copy)]
struct PacketRef {
    place: PacketPlace,
    sequence_id: u32,
}

impl<F> fmt::Debug for Checker<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = &self.report.summary;
        f.debug_struct("Checker")
            .field("summary", summary)
            .finish_non_exhaustive()
    }
}

impl<F: FnMut(&Finding)> Checker<F> {
    /// Creates a checker that calls `report` for each finding, however many there are.
    pub fn new(report: F) -> Self {
        Self {
            report: Reporter {
                report,
                summary: CheckSummary::default(),
            },
            sequences: SequenceStates::default(),
            has_losses: false,
            tracks: TrackUses::default(),
            nesting: Nesting::default(),
            flows: Flows::default(),
            invalid_texts: 0,
        }
    }

    /// Reads the next record of `reader`, and checks it. All records of a trace must be read in this way.
    ///
    /// # Errors
    ///
    /// Those of [`TraceReader::next`].
    pub fn next<'r, R: Read>(
        &mut self,
        reader: &'r mut TraceReader<R>,
    ) -> Result<Option<Record<'r>>, ReadError> {
        let Some(step) = reader.step()? else {
            return Ok(None);
        };
        let is_packet = matches!(step, Step::Packet(_));
        let record = reader.record(step);
        self.record(reader, is_packet, &record);
        Ok(Some(record))
    }

    #[inline]
    fn record<R>(&mut self, reader: &TraceReader<R>, is_packet: bool, record: &Record<'_>) {
        let state = reader.state();
        let place = reader.packet().place;
        let head = reader.head();
        if is_packet {
            let at = PacketRef {
                place,
                sequence_id: head.sequence_id,
            };
            self.head(at, head);
            for anomaly in &state.anomalies {
                self.anomaly(at, anomaly);
            }
            if state.names.invalid_texts() != self.invalid_texts {
                self.invalid_texts = state.names.invalid_texts();
                let text = "a string is not UTF-8".to_owned();
                self.add_finding(at, Level::Error, Rule::Decoding, text);
            }
        }
        match record {
            Record::Event(event) => self.event(head, event, state),
            Record::Track(record) => {
                let level = self.level_behind_loss(record.sequence_id);
                let report = &mut self.report;
                self.tracks.described(
                    record,
                    reader.tracks(),
                    reader.names(),
                    level,
                    &mut |finding| report.add(&finding),
                );
            }
            Record::Packet(packet) => self.other(packet),
            Record::Loss(loss) => self.loss(loss),
            Record::Skipped(skipped) => {
                let at = PacketRef {
                    place,
                    sequence_id: skipped.sequence_id,
                };
                self.skipped(at, skipped.reason);
            }
            Record::Damage(damage) => self.damage(damage),
        }
    }

    fn add_finding(&mut self, at: PacketRef, level: Level, rule: Rule, text: String) {
        let finding = Finding::at(at.place, at.sequence_id, level, rule, text);
        self.report.add(&finding);
    }

    /// Checks the head of a packet, and counts it.
    fn head(&mut self, at: PacketRef, head: &PacketHead) {
        self.report.summary.packets += 1;
        let has_content = head.payload_field == fields::TRACK_EVENT
            || head.has_definitions()
            || head.sequence_flags != 0;
        if head.sequence_id == 0 {
            if has_content {
                let text = "the packet has no sequence id".to_owned();
                self.add_finding(at, Level::Error, Rule::Sequence, text);
            }
            return;
        }
        if let Some(seen) = self.sequences.get_mut(head.sequence_id) {
            seen.is_skipping &= !head.clears_state();
            return;
        }
        let is_whole = head.first_packet_on_sequence || head.sequence_id == SERVICE;
        self.has_losses |= !is_whole;
        let Some(seen) = self.sequences.begin(head.sequence_id) else {
            return;
        };
        seen.has_losses = !is_whole;
        if head.first_packet_on_sequence
            && (head.trusted_uid.is_none() || head.trusted_pid.is_none())
        {
            let text = "the first packet of the sequence lacks trusted_uid or trusted_pid";
            self.add_finding(at, Level::Note, Rule::Sequence, text.to_owned());
        }
        if !is_whole {
            let text = "the beginning of the sequence is not in the trace".to_owned();
            self.add_finding(at, Level::Note, Rule::Loss, text);
        }
    }

    fn anomaly(&mut self, at: PacketRef, anomaly: &Anomaly) {
        let (rule, text) = match anomaly {
            Anomaly::MistypedField { field } => (
                Rule::Decoding,
                format!("field {field} of the packet has the wrong wire type"),
            ),
            Anomaly::Malformed { message, error } => {
                (Rule::Decoding, format!("{message} is malformed: {error}"))
            }
            Anomaly::NotTheFirst {
                packets,
                clears_state,
            } => {
                let text = format!(
                    "the packet is flagged as the first of its sequence, but {packets} come before it"
                );
                let level = if *clears_state {
                    Level::Note
                } else {
                    Level::Error
                };
                return self.add_finding(at, level, Rule::FirstPacket, text);
            }
            Anomaly::DefinitionWithoutState => {
                // Behind a loss, the packet that cleared the state may be among the lost packets.
                let level = self.level_behind_loss(at.sequence_id);
                let text = "interned data comes before the sequence's state is cleared".to_owned();
                return self.add_finding(at, level, Rule::IncrementalState, text);
            }
            Anomaly::IidZero { table } => (
                Rule::Interning,
                format!("an entry of {} has no id", table.name()),
            ),
            Anomaly::IidRedefined { table, iid } => (
                Rule::Interning,
                format!(
                    "id {iid} of {} is defined again, with another value",
                    table.name()
                ),
            ),
            // Not reported here: `References::of` finds this fault again, and reports the first
            // fault of each event.
            Anomaly::IidUnknown { .. } => return,
            Anomaly::UntiedClock { clock_id } => (
                Rule::Clock,
                format!(
                    "the snapshot defines clock {clock_id}, but has no clock whose time is known"
                ),
            ),
            Anomaly::ClockBeforeClear { clock_id } => {
                let text = format!("clock {clock_id} was defined before the state was cleared");
                return self.add_finding(at, Level::Note, Rule::Clock, text);
            }
            Anomaly::ExtraCountersWithoutTrack => (
                Rule::Counter,
                "the event has more extra counter values than tracks for them".to_owned(),
            ),
            Anomaly::NoTrackUuid => (Rule::Track, "a track descriptor has no uuid".to_owned()),
        };
        self.add_finding(at, Level::Error, rule, text);
    }

    fn event(&mut self, head: &PacketHead, event: &Event<'_>, state: &TraceState) {
        self.report.summary.events += 1;
        let at = PacketRef {
            place: event.head.place,
            sequence_id: event.head.sequence_id,
        };
        // Flags say whether the packet depends on earlier ones. Without flags, it is checked whether it does.
        if !event.is_plain() || head.sequence_flags == 0 {
            self.references(at, head, event, state);
        }
        let has_losses = self.has_losses;
        let level = self.level_behind_loss(at.sequence_id);
        let report = &mut self.report;
        let mut add = |finding: Finding| report.add(&finding);
        self.tracks.event(event, level, &mut add);
        self.nesting.event(
            &event.head,
            event.tracks(),
            event.names(),
            has_losses,
            &mut add,
        );
    }

    fn references(
        &mut self,
        at: PacketRef,
        head: &PacketHead,
        event: &Event<'_>,
        state: &TraceState,
    ) {
        let references = References::of(event);
        if let Some(fault) = references.fault {
            self.fault(at, fault);
        }
        if head.sequence_flags == 0 {
            self.dependence(at, head, &references, state);
        }
        if references.has_flows {
            self.flows.add(event);
        }
    }

    fn fault(&mut self, at: PacketRef, fault: Fault) {
        let (rule, text) = match fault {
            Fault::Malformed(error) => (
                Rule::Decoding,
                format!("a message in the event is malformed: {error}"),
            ),
            Fault::WireType { message, field } => (
                Rule::Decoding,
                format!("field {field} of {message} has the wrong wire type"),
            ),
            Fault::NoText { message, field } => (
                Rule::Decoding,
                format!("field {field} of {message} is not UTF-8"),
            ),
            Fault::UnknownIid { table, iid } => (
                Rule::Interning,
                format!("id {iid} is not defined in {}", table.name()),
            ),
        };
        self.add_finding(at, Level::Error, rule, text);
    }

    /// Checks that a packet which depends on earlier packets says so in its flags. Otherwise a
    /// reader that missed some of the earlier packets would decode the packet wrongly.
    fn dependence(
        &mut self,
        at: PacketRef,
        head: &PacketHead,
        references: &References,
        state: &TraceState,
    ) {
        let sequence = state.sequences.current();
        let has_default_clock =
            sequence.is_some_and(|sequence| sequence.default_clock_id.is_some());
        let has_default_track =
            sequence.is_some_and(|sequence| sequence.default_track_uuid.is_some());
        let on = if references.has_iids {
            "interned ids"
        } else if head.timestamp_clock_id.is_none() && has_default_clock {
            "a default clock"
        } else if !references.has_track && has_default_track {
            "a default track"
        } else {
            return;
        };
        let text = format!("the event depends on {on} without SEQ_NEEDS_INCREMENTAL_STATE");
        self.add_finding(at, Level::Error, Rule::IncrementalState, text);
    }

    fn other(&mut self, packet: &OtherPacket<'_>) {
        let payload = packet.packet.payload();
        if let Some(payload) = payload
            && payload.field == fields::EXTENSION_DESCRIPTOR
            && let Some(text) = schemas::fault(payload.bytes)
        {
            let at = PacketRef {
                place: packet.place,
                sequence_id: packet.packet.head.sequence_id,
            };
            self.add_finding(at, Level::Error, Rule::Schema, text);
        }
    }

    fn loss(&mut self, loss: &Loss) {
        let at = PacketRef {
            place: loss.place,
            sequence_id: loss.sequence_id,
        };
        self.has_losses = true;
        if let Some(seen) = self.sequences.begin(loss.sequence_id) {
            seen.has_losses = true;
        }
        let unknown_bits = loss.unknown_bits();
        if unknown_bits != 0 {
            let text = format!("a loss has unknown causes: bits {unknown_bits:#x}");
            return self.add_finding(at, Level::Error, Rule::Loss, text);
        }
        let mut causes: Vec<_> = loss.causes().filter(|cause| *cause != "PRESENT").collect();
        if causes.is_empty() {
            causes.push("unknown cause");
        }
        let text = format!("packets before this one are missing: {}", causes.join(", "));
        self.add_finding(at, Level::Note, Rule::Loss, text);
    }

    /// Returns the level for a fault that a loss could explain: a note if packets of the sequence
    /// may have been lost, else an error.
    fn level_behind_loss(&self, sequence_id: u32) -> Level {
        if self.sequences.has_losses(sequence_id) {
            Level::Note
        } else {
            Level::Error
        }
    }

    fn skipped(&mut self, at: PacketRef, reason: SkipReason) {
        self.report.summary.skipped += 1;
        let (level, rule) = match reason {
            SkipReason::NeedsState => return self.unreadable(at, reason),
            SkipReason::UnknownClock { .. } | SkipReason::TimeOutOfRange { .. } => {
                (Level::Error, Rule::Clock)
            }
            SkipReason::NoTime | SkipReason::NoType => (Level::Error, Rule::Event),
            SkipReason::NoValue => (Level::Error, Rule::Counter),
            SkipReason::UnknownType { .. } | SkipReason::LegacyPhase { .. } => {
                (Level::Note, Rule::Event)
            }
            SkipReason::TooManyTracks => (Level::Note, Rule::Track),
            SkipReason::Malformed { .. } => (Level::Error, Rule::Decoding),
        };
        self.add_finding(at, level, rule, format!("the packet is skipped: {reason}"));
    }

    /// Reports a packet whose definitions are missing. Behind a loss there may be many, so only the
    /// first is reported.
    fn unreadable(&mut self, at: PacketRef, reason: SkipReason) {
        let level = self.level_behind_loss(at.sequence_id);
        let mut text = format!("the packet is skipped: {reason}");
        if let Some(seen) = self.sequences.get_mut(at.sequence_id)
            && level == Level::Note
        {
            if seen.is_skipping {
                return;
            }
            seen.is_skipping = true;
            text += "; later ones of its sequence are, too, until its state is cleared";
        } else if at.sequence_id == 0 {
            // `head` has already reported that the packet has no sequence id.
            return;
        }
        self.add_finding(at, level, Rule::IncrementalState, text);
    }

    fn damage(&mut self, damage: &Damage) {
        self.has_losses = true;
        self.sequences.damage();
        let finding = Finding {
            rule: Rule::Framing,
            level: Level::Error,
            packet: Some(damage.after_packet.map_or(0, |packet| packet + 1)),
            sequence_id: None,
            offset: Some(damage.offset),
            text: format!(
                "{}; {} bytes are left out",
                damage.kind, damage.length_bytes
            ),
        };
        self.report.add(&finding);
    }

    /// Checks what only the end of the trace tells. Call it after the last record.
    pub fn finish<R>(mut self, reader: &TraceReader<R>) -> CheckSummary {
        let tracks = reader.tracks();
        let has_losses = self.has_losses;
        let report = &mut self.report;
        let mut add = |finding: Finding| report.add(&finding);
        self.tracks.finish(tracks, reader.names(), &mut add);
        self.nesting
            .finish(tracks, reader.names(), has_losses, &mut add);
        for (id, flow) in self.flows.singles() {
            add(Finding::at(
                flow.place,
                flow.sequence_id,
                // The event that the flow should lead to may not have happened.
                Level::Note,
                Rule::Flow,
                format!("flow {id} has only this event"),
            ));
        }
        let of_trace = |rule, text| Finding {
            rule,
            level: Level::Note,
            packet: None,
            sequence_id: None,
            offset: None,
            text,
        };
        if self.flows.left_out > 0 {
            let text = format!(
                "{} events of further flows are not checked",
                self.flows.left_out
            );
            add(of_trace(Rule::Flow, text));
        }
        let lost_begins = self.nesting.lost_begins();
        if lost_begins > 0 {
            let text = format!("{lost_begins} ends have no begin, which may have been lost");
            add(of_trace(Rule::Nesting, text));
        }
        let forgotten = reader.forgotten_sequences();
        if forgotten > 0 {
            let text =
                format!("the definitions of {forgotten} sequences were dropped to limit memory");
            add(of_trace(Rule::Sequence, text));
        }
        for end in reader.recording_ends() {
            if end != RecordingEnd::Whole {
                let level = match end.is_error() {
                    true => Level::Error,
                    false => Level::Note,
                };
                let finding = of_trace(Rule::Recording, end.to_string());
                add(Finding { level, ..finding });
            }
        }
        self.report.summary.sequences = self.sequences.count();
        self.report.summary
    }
}
