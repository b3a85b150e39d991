//! Reads the times of a trace: durations by name, self times by stack.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use protozero::DecodeError;
use tracezero_core::protos::TracePacket;
use tracezero_reader::{
    EventHead, InTimeOrder, Losses, NameTable, OtherPacket, Record, RecordingEnd, Slice, Slices,
    TraceReader, TrackTable,
};

use super::log_times::{LogTimes, log};
use crate::by_name::ByName;
use crate::error::ToolError;
use crate::input::Input;
use crate::packets::DamageLog;
use crate::stacks::{NodeId, StackTrees};
use crate::tracks::SpanPlace;

/// The times of a trace.
#[derive(Debug)]
pub(super) struct TraceTimes {
    pub(super) account: TraceAccount,
    pub(super) names: NameTable,
    /// The durations of spans on threads, and on other tracks.
    pub(super) durations: [ByName<LogTimes>; 2],
    /// The self times of stacks, without their tracks.
    pub(super) self_times: StackTrees<SpanPlace, LogTimes>,
}

/// What a trace contains, and what it lacks.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceAccount {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// The number of spans that have ended.
    pub(super) spans: u64,
    /// The number of spans that are not compared: they have not ended.
    pub(super) open_spans: u64,
    pub(super) gaps: u64,
    pub(super) packets_lost: u64,
    pub(super) damages: u64,
    /// The ends of recordings that are not whole.
    pub(super) early_ends: Vec<RecordingEnd>,
    /// The number of spans of names, or in stacks, that are left out or counted elsewhere, for want of
    /// room.
    pub(super) left_out: u64,
}

/// The place of a span that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    place: SpanPlace,
    stack: NodeId,
}

/// Adds up spans as they end.
#[derive(Debug)]
struct Totals {
    durations: [ByName<LogTimes>; 2],
    self_times: StackTrees<SpanPlace, LogTimes>,
    roots: [NodeId; 2],
    spans: u64,
}

impl TraceAccount {
    /// Returns true if spans are missing, or may be.
    pub(super) fn has_losses(&self) -> bool {
        self.gaps > 0 || self.packets_lost > 0 || self.damages > 0 || !self.early_ends.is_empty()
    }
}

/// Reads a trace. Memory grows with the number of its names, stacks and tracks, each of which has a
/// limit, and not with its length.
pub(super) fn read(path: &Path) -> Result<TraceTimes, ToolError> {
    let mut reader = TraceReader::new(Input::open(path)?);
    let mut damages = DamageLog::new(path);
    let mut losses = Losses::default();
    let mut order = InTimeOrder::new();
    let mut slices = Slices::<Open>::new();
    // A `RefCell`, because both closures below change the totals.
    let totals = RefCell::new(Totals::new());
    let mut add = |event: &EventHead, tracks: &TrackTable| {
        slices.add(
            event,
            |around| {
                let around = around.map(|slice| slice.value);
                totals.borrow_mut().begin(event, around, tracks)
            },
            |slice| totals.borrow_mut().end(&slice),
        );
    };
    loop {
        let record = reader.next().map_err(|error| damages.read_error(&error))?;
        match record {
            None => break,
            Some(Record::Event(event)) if event.head.kind.is_slice() => {
                let event = event.head;
                order.add(&event, reader.tracks(), |event| add(event, reader.tracks()));
            }
            // Errors are ignored here: the command `check` reports malformed packets.
            Some(Record::Packet(packet)) => drop(add_losses(&packet, &mut losses)),
            Some(Record::Loss(loss)) => losses.add(&loss),
            Some(Record::Damage(damage)) => damages.report(&damage),
            Some(_) => {}
        }
    }
    order.finish(|event| add(event, reader.tracks()));
    slices.finish(|slice| totals.borrow_mut().end(&slice));
    let totals = totals.into_inner();
    damages.require_packets(reader.packets())?;
    let of_other_names = totals.durations.iter().filter_map(ByName::others);
    let of_other_names: u64 = of_other_names.map(|times| times.count).sum();
    let is_early = |end: &RecordingEnd| *end != RecordingEnd::Whole;
    let account = TraceAccount {
        path: path.to_owned(),
        bytes: reader.offset(),
        spans: totals.spans,
        open_spans: slices.open().count() as u64,
        gaps: losses.gaps(),
        packets_lost: losses.packets(),
        damages: damages.count(),
        early_ends: reader.recording_ends().filter(is_early).collect(),
        left_out: of_other_names + totals.self_times.left_out() + slices.counts().too_deep,
    };
    damages.finish();
    Ok(TraceTimes {
        account,
        names: reader.names().clone(),
        durations: totals.durations,
        self_times: totals.self_times,
    })
}

fn add_losses(packet: &OtherPacket<'_>, losses: &mut Losses) -> Result<(), DecodeError> {
    match packet.packet.payload().map(|payload| payload.field) {
        // A packet with statistics has the accounts of sequences, too.
        Some(TracePacket::TRACE_STATS_FIELD_NUMBER | Losses::ACCOUNTS_FIELD_NUMBER) => {
            losses.add_packet(packet.packet.bytes())
        }
        _ => Ok(()),
    }
}

impl Totals {
    fn new() -> Self {
        let mut self_times = StackTrees::default();
        let roots = [SpanPlace::Thread, SpanPlace::Track].map(|place| self_times.add_root(place));
        Self {
            durations: Default::default(),
            self_times,
            roots,
            spans: 0,
        }
    }

    fn begin(&mut self, span: &EventHead, around: Option<Open>, tracks: &TrackTable) -> Open {
        let (place, parent) = match around {
            Some(around) => (around.place, around.stack),
            None => {
                let place = SpanPlace::of(tracks.track(span.track));
                (place, self.roots[place as usize])
            }
        };
        Open {
            place,
            stack: self.self_times.child(parent, span.name),
        }
    }

    fn end(&mut self, slice: &Slice<Open>) {
        self.spans += 1;
        let Open { place, stack } = slice.value;
        let log_of_duration = log(slice.duration_ns);
        let durations = &mut self.durations[place as usize];
        let row = durations.row(slice.begin.name, slice.begin.category);
        row.add_log(slice.duration_ns, log_of_duration);
        let log_of_self = match slice.self_ns == slice.duration_ns {
            true => log_of_duration,
            false => log(slice.self_ns),
        };
        let self_time = self.self_times.value_mut(stack);
        self_time.add_log(slice.self_ns, log_of_self);
    }
}
