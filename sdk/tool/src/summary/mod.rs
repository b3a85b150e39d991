//! Prints a trace as tables, or the sum of several.

mod histogram; // counts of durations by length
mod identity; // says which service and machine the trace comes from
mod json; // prints the tables as JSON
mod report; // sorts the rows of the tables
mod several; // adds up several traces
mod spans; // durations of spans
mod states; // divides the time of spans and threads by states of threads
mod text; // prints the tables as text

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use protozero::{DecodeError, Decoder};
use tracezero_reader::CounterValue;
use tracezero_reader::{
    EventHead, EventKind, InTimeOrder, Losses, OtherPacket, Record, RecordingEnd, Skipped, Slice,
    SliceCounts, Slices, TraceReader, TrackId, TrackTable,
};

use self::report::Report;
use self::spans::Durations;
use self::states::{KernelHalf, KernelStates};
use crate::Outcome;
use crate::by_name::ByName;
use crate::error::ToolError;
use crate::input::Input;
use crate::kernel_account::KernelAccount;
use crate::output::stdout;
use crate::packets::DamageLog;
use crate::schema::Schema;
use crate::states::{StateAccount, States};
use crate::thread_states::HOW_TO_RECORD;
use crate::tracks::{SpanPlace, TrackPaths};

/// The maximum number of different reasons for skipped packets. Packets with further ones are
/// counted together.
const MAX_SKIP_REASONS: usize = 50;
/// The maximum number of different payload fields. Packets with further ones count as
/// [`OTHER_FIELDS`].
const MAX_PACKET_KINDS: usize = 1000;
/// Stands for all payload fields beyond [`MAX_PACKET_KINDS`]. 0 is not the number of any field.
const OTHER_FIELDS: u32 = 0;
/// The maximum number of sequences that are counted.
const MAX_SEQUENCES: usize = 8 << 20;

/// Summarizes a trace
///
/// Prints the service and the machine that the trace comes from, its duration, where its events are, its spans by name with counts, durations and
/// self times, the spans that have not ended, its counters and instants, what was lost and what is
/// damaged. Self time is the time in a span without the spans inside it. p50 and p99 are exact
/// within 1.6 %; all other values are exact.
///
/// Spans on threads are counted separately from spans on other tracks. A future has both: its polls
/// are on threads, and the span from its begin to its end is on a track of its own. Spans that have
/// not ended by the end of the trace do not count in any statistics; they are listed with their
/// begin and age.
///
/// If a data source has a ProtoVM program, its state is listed: how many changes of it the trace has,
/// how many were overwritten and folded into it, and how much it contains after the last change.
///
/// With --states, and if the trace has scheduling events of the kernel, two more tables tell how the
/// time of spans on threads, and that of all threads, divides: running, waiting for a core, waiting for
/// a lock or another thread (futex), blocked on I/O, sleeping, stopped, and unknown where events are
/// missing. `tracezero why` tells more of a span.
///
/// Of several traces, prints one summary: spans, instants and counters of the same name are added up, and
/// a table lists the files, with what each lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero summary --top 10 --sort self app.pftrace")]
pub(crate) struct Args {
    /// The trace, or several; - is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Maximum number of rows of each table; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Order of the spans
    #[arg(long, value_enum, default_value_t = Sort::Total)]
    sort: Sort,
    /// Also tell what threads waited for; the trace needs the kernel's scheduling events
    #[arg(long)]
    states: bool,
    /// Print JSON, with durations in nanoseconds
    #[arg(long)]
    json: bool,
}

/// An order of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Longest total time first
    Total,
    /// Longest total self time first
    #[value(name = "self")]
    SelfTime,
    /// Most frequent first
    Count,
    /// Longest average first
    Mean,
    /// Longest single span first
    Max,
    /// By name
    Name,
}

impl Sort {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::SelfTime => "self time",
            Self::Count => "count",
            Self::Mean => "mean",
            Self::Max => "longest",
            Self::Name => "name",
        }
    }
}

/// The figures of a trace.
#[derive(Debug, Default)]
struct Summary {
    packets: u64,
    bytes: u64,
    /// The time of the first event.
    first_ns: Option<u64>,
    last_ns: u64,
    events: u64,
    /// The events of each track.
    tracks: Vec<TrackCounts>,
    sequences: SequencesSeen,
    spans_on_threads: ByName<Durations>,
    spans_on_tracks: ByName<Durations>,
    instants: ByName<u64>,
    /// The values of each track that is a counter.
    counters: Vec<Option<CounterValues>>,
    /// Packets without an event, by payload field.
    packet_kinds: BTreeMap<u32, PacketKind>,
    losses: Losses,
    kernel: KernelAccount,
    states: States,
    state_accounts: Vec<StateAccount>,
    /// The number of packets that cannot be decoded, by reason.
    skipped: BTreeMap<String, u64>,
    slices: SliceCounts,
    /// The ends of recordings that are not whole.
    early_ends: Vec<RecordingEnd>,
    late_events: u64,
    forgotten_sequences: u64,
}

/// The events of a track.
#[derive(Clone, Copy, Debug, Default)]
struct TrackCounts {
    events: u64,
    spans: u64,
    /// The time during which a span was open on the track.
    busy_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct CounterValues {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
    last: CounterValue,
    last_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct PacketKind {
    packets: u64,
    bytes: u64,
}

/// The sequences that have events.
#[derive(Debug, Default)]
struct SequencesSeen {
    ids: HashSet<u32>,
    /// The sequence of the last event. Most events are on the same sequence as the event before
    /// them, and then `ids` need not be searched.
    last: Option<u32>,
}

/// A trace that was read.
struct Reading {
    /// Has the names and tracks.
    reader: TraceReader<Input>,
    summary: Summary,
    /// The slices that are open at the end.
    slices: Slices,
    kernel: Option<KernelStates>,
    damages: DamageLog,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let top = match args.top {
        0 => usize::MAX,
        top => top,
    };
    let [file] = &args.files[..] else {
        return several::run(args, top);
    };
    let mut schema = Schema::of_sdk();
    let Reading {
        reader,
        summary,
        slices,
        kernel,
        damages,
    } = Reading::of(file, args.states, &mut schema)?;
    let report = Report {
        states: kernel.map(|kernel| kernel.tables(reader.tracks(), reader.names())),
        summary: &summary,
        identities: reader.identities(),
        slices: &slices,
        tracks: reader.tracks(),
        names: reader.names(),
        paths: TrackPaths::new(reader.tracks(), reader.names()),
        schema: &schema,
        top,
        sort: args.sort,
        damages: damages.count(),
    };
    let mut out = stdout();
    match args.json {
        true => json::print(&report, &mut out),
        false => text::print(&report, &mut out),
    }
    .and_then(|()| out.flush())
    .map_err(ToolError::Output)?;
    Ok(damages.finish())
}

impl Reading {
    /// Reads a trace. `schema` learns what the trace says of it.
    fn of(file: &Path, with_states: bool, schema: &mut Schema) -> Result<Self, ToolError> {
        let mut reader = TraceReader::new(Input::open(file)?);
        let mut damages = DamageLog::new(file);
        let mut summary = Summary::default();
        let mut order = InTimeOrder::new();
        let mut slices = Slices::new();
        let mut kernel = with_states.then(KernelHalf::default);
        loop {
            let record = reader.next().map_err(|error| damages.read_error(&error))?;
            match record {
                None => break,
                Some(Record::Event(event)) => {
                    for (track, value) in event.extra_counters() {
                        summary.add_counter(*track, *value, event.head.timestamp_ns);
                    }
                    let event = event.head;
                    summary.add_event(&event);
                    if event.kind.is_slice() {
                        order.add(&event, reader.tracks(), |event| {
                            slices.add(
                                event,
                                |_| (),
                                |slice| {
                                    summary.add_slice(&slice, reader.tracks());
                                    kernel.iter_mut().for_each(|it| it.spans.add(&slice));
                                },
                            );
                        });
                    }
                }
                Some(Record::Packet(packet)) => {
                    schema.learn_from_packet(packet.packet.bytes());
                    summary.states.add(packet.packet.bytes());
                    summary.add_packet(&packet);
                    kernel.iter_mut().for_each(|it| it.events.add(&reader));
                }
                Some(Record::Loss(loss)) => summary.losses.add(&loss),
                Some(Record::Skipped(skipped)) => summary.add_skipped(&skipped),
                Some(Record::Damage(damage)) => damages.report(&damage),
                // Descriptions of tracks are in the table of tracks; other records do not matter here.
                Some(_) => {}
            }
        }
        let tracks = reader.tracks();
        let mut add = |slice: Slice| {
            summary.add_slice(&slice, tracks);
            kernel.iter_mut().for_each(|it| it.spans.add(&slice));
        };
        order.finish(|event| slices.add(event, |_| (), &mut add));
        slices.finish(add);
        summary.packets = reader.packets();
        damages.require_packets(summary.packets)?;
        summary.bytes = reader.offset();
        summary.slices = slices.counts();
        let is_early = |end: &RecordingEnd| *end != RecordingEnd::Whole;
        summary.early_ends = reader.recording_ends().filter(is_early).collect();
        summary.late_events = order.late();
        summary.forgotten_sequences = reader.forgotten_sequences();

        let kernel = kernel.map(KernelHalf::finish);
        if let Some(kernel) = &kernel
            && kernel.timelines.counts().switches == 0
        {
            return Err(ToolError::Read {
                path: file.to_owned(),
                message: format!(
                    "the trace has no scheduling events; {HOW_TO_RECORD}{}",
                    summary.kernel.why_missing()
                ),
            });
        }
        Ok(Self {
            reader,
            summary,
            slices,
            kernel,
            damages,
        })
    }
}

impl Summary {
    #[inline]
    fn add_event(&mut self, event: &EventHead) {
        self.events += 1;
        self.sequences.add(event.sequence_id);
        let now_ns = event.timestamp_ns;
        let first_ns = self.first_ns.get_or_insert(now_ns);
        *first_ns = now_ns.min(*first_ns);
        self.last_ns = self.last_ns.max(now_ns);
        self.track(event.track).events += 1;
        match event.kind {
            EventKind::Instant => *self.instants.row(event.name, event.category) += 1,
            EventKind::Counter(value) => self.add_counter(event.track, value, now_ns),
            EventKind::Slice { duration_ns } => {
                self.last_ns = self.last_ns.max(now_ns.saturating_add(duration_ns));
            }
            _ => {}
        }
    }

    #[inline]
    fn add_slice(&mut self, slice: &Slice, tracks: &TrackTable) {
        let spans = match SpanPlace::of(tracks.track(slice.begin.track)) {
            SpanPlace::Thread => &mut self.spans_on_threads,
            SpanPlace::Track => &mut self.spans_on_tracks,
        };
        let row = spans.row(slice.begin.name, slice.begin.category);
        row.add(slice.duration_ns, slice.self_ns);
        let track = self.track(slice.begin.track);
        track.spans += 1;
        if slice.depth == 0 {
            track.busy_ns = track.busy_ns.saturating_add(slice.duration_ns);
        }
    }

    fn add_counter(&mut self, track: TrackId, value: CounterValue, now_ns: u64) {
        let index = track.index();
        if index >= self.counters.len() {
            self.counters.resize(index + 1, None);
        }
        let number = value.as_f64();
        let counter = self.counters[index].get_or_insert(CounterValues {
            count: 0,
            min: number,
            max: number,
            sum: 0.0,
            last: value,
            last_ns: 0,
        });
        counter.count += 1;
        counter.min = counter.min.min(number);
        counter.max = counter.max.max(number);
        counter.sum += number;
        // Events of different threads are not in order of time in the file.
        if now_ns >= counter.last_ns {
            counter.last_ns = now_ns;
            counter.last = value;
        }
    }

    fn add_packet(&mut self, packet: &OtherPacket<'_>) {
        let Some(payload) = packet.packet.payload() else {
            return;
        };
        let has_room = self.packet_kinds.len() < MAX_PACKET_KINDS;
        let field = match has_room || self.packet_kinds.contains_key(&payload.field) {
            true => payload.field,
            false => OTHER_FIELDS,
        };
        let kind = self.packet_kinds.entry(field).or_default();
        kind.packets += 1;
        kind.bytes += payload.bytes.len() as u64;
        // Errors are ignored here: the command `check` reports malformed packets.
        let _ = self.kernel.add(packet.packet.bytes());
        let _ = self.losses.add_packet(packet.packet.bytes());
        let _ = self.set_state_accounts(packet.packet.bytes());
    }

    fn set_state_accounts(&mut self, packet: &[u8]) -> Result<(), DecodeError> {
        let accounts =
            Decoder::new(packet).repeated::<protozero::types::Bytes>(Losses::ACCOUNTS_FIELD_NUMBER);
        for accounts in accounts {
            self.state_accounts = StateAccount::read_all(accounts?)?;
        }
        Ok(())
    }

    fn add_skipped(&mut self, skipped: &Skipped) {
        let reason = skipped.reason.to_string();
        let room = self.skipped.len() < MAX_SKIP_REASONS;
        if room || self.skipped.contains_key(&reason) {
            *self.skipped.entry(reason).or_default() += 1;
        } else {
            let others = "other reasons".to_owned();
            *self.skipped.entry(others).or_default() += 1;
        }
    }

    #[inline]
    fn track(&mut self, track: TrackId) -> &mut TrackCounts {
        let index = track.index();
        if index >= self.tracks.len() {
            self.tracks.resize(index + 1, TrackCounts::default());
        }
        &mut self.tracks[index]
    }

    fn duration_ns(&self) -> u64 {
        self.last_ns - self.first_ns.unwrap_or(self.last_ns)
    }
}

impl SequencesSeen {
    #[inline]
    fn add(&mut self, sequence_id: u32) {
        if self.last != Some(sequence_id) {
            self.last = Some(sequence_id);
            if self.ids.len() < MAX_SEQUENCES {
                self.ids.insert(sequence_id);
            }
        }
    }

    fn count(&self) -> usize {
        self.ids.len()
    }
}
