//! Four threads record at full speed with the default configuration, then one span per millisecond
//! each. No event is lost, and a foreign reader can use every event.
//!
//! `FULL_SPEED_SPANS` and `FULL_SPEED_SLOW_SPANS` set the number of spans that each thread records
//! at full speed and then slowly. `ci/long.sh` runs an optimized build with 500,000 and 100.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::{BTreeMap, HashMap};
use std::sync::Barrier;
use std::time::Duration;
use std::{env, fs, mem, thread};

use perfetto_protos::clock_snapshot::ClockSnapshot;
use perfetto_protos::debug_annotation::DebugAnnotation;
use perfetto_protos::debug_annotation::debug_annotation::{Name_field as ArgumentName, Value};
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_packet::trace_packet::SequenceFlags;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::{Name_field as EventName, Type};
use protobuf::CodedInputStream;
use support::Folder;
use tracezero::{Report, Session, span};

const THREADS: u64 = 4;
const SLOW_PERIOD: Duration = Duration::from_millis(1);

#[test]
fn full_speed_loses_nothing_by_default() {
    let number = |name, default| env::var(name).map_or(default, |text| text.parse().unwrap());
    let spans = Spans {
        fast: number("FULL_SPEED_SPANS", 50_000),
        slow: number("FULL_SPEED_SLOW_SPANS", 30),
    };
    // If the test fails, the trace stays for inspection.
    let folder = Folder::empty();
    let path = folder.file("full_speed.pftrace");

    let session = Session::record_to_file(&path).unwrap();
    record(spans);
    let report = session.finish().unwrap();
    let process_peak_kib = peak_memory_kib();

    let found = Findings::read(&fs::read(&path).unwrap());
    print(&report, process_peak_kib, &found);
    assert_eq!(report.losses.total(), 0, "{report:#}");
    assert_eq!(report.packets_read, report.packets_begun, "{report:#}");
    let events = 2 * THREADS * (spans.fast + spans.slow);
    assert_eq!(report.events, events, "{report:#}");
    assert_eq!(found, Findings::all(spans), "{report:#}");
}

/// The numbers of spans that each thread records.
#[derive(Clone, Copy)]
struct Spans {
    fast: u64,
    slow: u64,
}

/// Records the spans. All threads begin at the same time.
fn record(spans: Spans) {
    let start = Barrier::new(THREADS as usize);
    let record = |thread| {
        start.wait();
        for number in 0..spans.fast {
            let _span = span!("speed", "fast", number, thread);
        }
        for number in 0..spans.slow {
            drop(span!("speed", "slow", number, thread));
            thread::sleep(SLOW_PERIOD);
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let builder = thread::Builder::new().name(thread_name(thread));
            builder.spawn_scoped(scope, move || record(thread)).unwrap();
        }
    });
}

fn thread_name(thread: u64) -> String {
    format!("speed-{thread}")
}

/// Returns the peak memory of this process so far.
fn peak_memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().strip_suffix(" kB"));
    kib.unwrap().parse().unwrap()
}

/// Prints the line that `ci/long.sh` shows. Called before the assertions, so that failed runs print
/// it, too.
fn print(report: &Report, process_peak_kib: u64, found: &Findings) {
    println!(
        "full speed: {} events, {} slices, {} lost, waited {:.1?}, buffers {} MiB, process {} MiB",
        report.events,
        found.slices.values().sum::<u64>(),
        report.losses.total(),
        report.memory.waited,
        report.memory.peak_bytes >> 20,
        process_peak_kib >> 10
    );
}

/// The findings of a reader. It can use an event only while the incremental state of the event's
/// sequence is valid.
///
/// Replaces the judge, which takes too much time and memory for so many events.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    /// The numbers of slices with a begin and an end, by thread and name.
    slices: BTreeMap<(String, String), u64>,
    /// The number of events that need incremental state which their sequence lacks, or a name or
    /// track that is not defined.
    unusable: u64,
    /// The number of ends without a begin, and of begins without an end.
    unpaired: u64,
    /// The number of slices whose arguments are not the next ones of their thread.
    out_of_order: u64,
    /// The number of events before the time of their predecessor, and of slow ones too soon after
    /// it.
    too_early: u64,
    /// The number of packets before which others are missing.
    gaps: u64,
}

impl Findings {
    /// Returns the findings for a trace without losses.
    fn all(spans: Spans) -> Self {
        let of_thread = |thread| {
            [("fast", spans.fast), ("slow", spans.slow)]
                .map(|(name, count)| ((thread_name(thread), name.to_owned()), count))
        };
        Self {
            slices: (0..THREADS).flat_map(of_thread).collect(),
            ..Self::default()
        }
    }

    fn read(trace: &[u8]) -> Self {
        /// The tag of field 1 of a trace, a message.
        const PACKET_TAG: u32 = 1 << 3 | 2;
        let mut reader = Reader::default();
        let mut input = CodedInputStream::from_bytes(trace);
        while let Some(tag) = input.read_raw_tag_or_eof().unwrap() {
            assert_eq!(tag, PACKET_TAG);
            reader.packet(&input.read_message().unwrap());
        }
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    sequences: HashMap<u32, Sequence>,
    /// The names of threads, by their tracks.
    threads: HashMap<u64, String>,
    found: Findings,
}

#[derive(Default)]
struct Sequence {
    /// `None` before the first clear, and from a loss to the next clear.
    state: Option<State>,
    open: Option<OpenSlice>,
    /// The number of the next slice, by name.
    next: HashMap<String, u64>,
    /// The earliest time that the next event may have.
    earliest_ns: u64,
}

/// The incremental state, valid from one clear to the next.
#[derive(Default)]
struct State {
    track_uuid: u64,
    /// The time of the last event, to which the next timestamp is added.
    last_ns: u64,
    event_names: HashMap<u64, String>,
    argument_names: HashMap<u64, String>,
}

/// A slice that has begun and not ended.
struct OpenSlice {
    thread: String,
    name: String,
}

impl Reader {
    fn packet(&mut self, packet: &TracePacket) {
        let id = packet.trusted_packet_sequence_id();
        let sequence = self.sequences.entry(id).or_default();
        let is_flagged = |flag: SequenceFlags| packet.sequence_flags() & flag as u32 != 0;
        if packet.previous_packet_dropped() {
            self.found.gaps += 1;
            sequence.state = None;
        }
        if is_flagged(SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED) {
            sequence.state = Some(State::default());
        }
        if let Some(state) = &mut sequence.state {
            state.define(packet);
        }
        if packet.has_track_descriptor() {
            let track = packet.track_descriptor();
            let thread = track.thread.thread_name().to_owned();
            self.threads.insert(track.uuid(), thread);
        }
        if packet.has_track_event() {
            // Every event of this test refers to names, a track and a time of earlier packets.
            assert!(is_flagged(SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE));
            sequence.event(packet, &self.threads, &mut self.found);
        }
    }

    fn finish(mut self) -> Findings {
        let open = self.sequences.values().filter(|it| it.open.is_some());
        self.found.unpaired += open.count() as u64;
        self.found
    }
}

impl State {
    fn define(&mut self, packet: &TracePacket) {
        if let Some(defaults) = packet.trace_packet_defaults.as_ref() {
            self.track_uuid = defaults.track_event_defaults.track_uuid();
            let clock_id = defaults.timestamp_clock_id();
            self.last_ns = start_of_clock(clock_id, packet.clock_snapshot());
        }
        let Some(names) = packet.interned_data.as_ref() else {
            return;
        };
        for name in &names.event_names {
            self.event_names.insert(name.iid(), name.name().to_owned());
        }
        for name in &names.debug_annotation_names {
            self.argument_names
                .insert(name.iid(), name.name().to_owned());
        }
    }

    fn name(&self, event: &TrackEvent) -> Option<String> {
        match &event.name_field {
            Some(EventName::Name(name)) => Some(name.clone()),
            Some(EventName::NameIid(iid)) => self.event_names.get(iid).cloned(),
            _ => None,
        }
    }

    /// Returns the arguments `number` and `thread`, if these are the only ones, in this order.
    fn arguments(&self, event: &TrackEvent) -> Option<(u64, u64)> {
        let mut arguments = event.debug_annotations.iter();
        let mut next = |name| {
            let argument = arguments.next()?;
            let is_named = self.argument_name(argument)? == name;
            match argument.value {
                Some(Value::UintValue(value)) if is_named => Some(value),
                _ => None,
            }
        };
        let values = (next("number")?, next("thread")?);
        arguments.next().is_none().then_some(values)
    }

    fn argument_name<'a>(&'a self, argument: &'a DebugAnnotation) -> Option<&'a str> {
        match &argument.name_field {
            Some(ArgumentName::Name(name)) => Some(name),
            Some(ArgumentName::NameIid(iid)) => self.argument_names.get(iid).map(String::as_str),
            _ => None,
        }
    }

    fn time_ns(&mut self, packet: &TracePacket) -> u64 {
        match packet.timestamp_clock_id {
            None => {
                // The increment may be negative.
                self.last_ns = self.last_ns.wrapping_add(packet.timestamp());
                self.last_ns
            }
            Some(BOOTTIME) => packet.timestamp(),
            Some(clock_id) => panic!("an event by clock {clock_id}"),
        }
    }
}

const BOOTTIME: u32 = 6;

/// Returns the time of the trace clock at which an incremental clock was 0.
fn start_of_clock(clock_id: u32, snapshot: &ClockSnapshot) -> u64 {
    let find = |id| snapshot.clocks.iter().find(|clock| clock.clock_id() == id);
    let clock = find(clock_id).expect("a snapshot of the default clock");
    assert!(clock.is_incremental());
    assert_eq!(clock.unit_multiplier_ns.unwrap_or(1), 1);
    find(BOOTTIME).unwrap().timestamp()
}

impl Sequence {
    fn event(
        &mut self,
        packet: &TracePacket,
        threads: &HashMap<u64, String>,
        found: &mut Findings,
    ) {
        let event = packet.track_event();
        let Some(state) = &mut self.state else {
            found.unusable += 1;
            return;
        };
        let time_ns = state.time_ns(packet);
        found.too_early += u64::from(time_ns < self.earliest_ns);
        self.earliest_ns = time_ns;
        match event.type_() {
            Type::TYPE_SLICE_BEGIN => {
                let track_uuid = event.track_uuid.unwrap_or(state.track_uuid);
                let (Some(name), Some(thread)) = (state.name(event), threads.get(&track_uuid))
                else {
                    found.unusable += 1;
                    return;
                };
                let arguments = state.arguments(event);
                let thread = thread.clone();
                self.begin(OpenSlice { thread, name }, arguments, found);
            }
            Type::TYPE_SLICE_END => self.end(found),
            kind => panic!("nobody recorded {kind:?}"),
        }
    }

    fn begin(&mut self, open: OpenSlice, arguments: Option<(u64, u64)>, found: &mut Findings) {
        let next = self.next.entry(open.name.clone()).or_default();
        let is_next = arguments.is_some_and(|(number, thread)| {
            // A gap is counted once.
            let expected = mem::replace(next, number + 1);
            number == expected && thread_name(thread) == open.thread
        });
        found.out_of_order += u64::from(!is_next);
        let earlier = self.open.replace(open);
        found.unpaired += u64::from(earlier.is_some());
    }

    fn end(&mut self, found: &mut Findings) {
        let Some(OpenSlice { thread, name }) = self.open.take() else {
            found.unpaired += 1;
            return;
        };
        if name == "slow" {
            self.earliest_ns += SLOW_PERIOD.as_nanos() as u64;
        }
        *found.slices.entry((thread, name)).or_default() += 1;
    }
}
