//! What is decoded of this kernel's pages is what the kernel prints of them, record by record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::with_tracefs;
use tracezero_kernel::protos::FtraceEventBundleDecoder;

use super::bundle::{BundleBuffers, BundleBuilder, CpuCounts, CpuState, PageHandler, PageReader};
use super::config::Config;
use super::cpu_stats::CpuStats;
use super::event_encoder::EventEncoder;
use super::page::Record;
use super::recorder::layout;
use super::stats::SetupReport;
use super::tracefs::{Instance, Tracefs};
use crate::instance_key::InstanceKey;
use crate::seen_threads::SeenThreads;

/// The number of runs, each with buffers that the kernel has overwritten.
const RUNS: usize = 20;

/// One event, as far as the kernel prints it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time_us: u64,
    cpu: u32,
    /// The thread that ran. Columns do not have it.
    pid: Option<u32>,
    text: String,
}

/// Collects the packets that the encoder would write.
struct Collector<'e> {
    encoder: &'e mut EventEncoder,
    bundles: Vec<Vec<u8>>,
}

impl PageHandler for Collector<'_> {
    fn record(
        &mut self,
        record: Record<'_>,
        bundle: &mut BundleBuilder<'_>,
        seen: &mut SeenThreads,
    ) {
        self.encoder.record(record, bundle, seen);
    }

    fn bundle_ended(&mut self, bundle: &[u8]) {
        self.bundles.push(bundle.to_vec());
    }
}

/// Records the events of a load until the kernel has overwritten some, and compares what is decoded
/// with what the kernel prints. Returns the number of events, and that of the lost ones.
fn compare(tracefs: &Tracefs, config: &Config) -> (usize, u64) {
    let instance = tracefs.new_instance().expect("an instance");
    instance.write("trace_clock", "boot").expect("the clock");
    instance.write("buffer_size_kb", "16").expect("the size");
    let mut report = SetupReport::default();
    let key = InstanceKey::unique();
    let (mut encoder, compact) = EventEncoder::set_up(key, config, tracefs, &instance, &mut report);
    assert_eq!(report.failed, Vec::<String>::new());
    instance.write("tracing_on", "1").expect("the switch");
    make_load(&instance);
    instance.write("tracing_on", "0").expect("the switch");

    let printed = instance.read("trace").expect("the kernel prints");
    let mut printed: Vec<Event> = printed.lines().filter_map(printed_event).collect();
    let reader = PageReader {
        layout: layout(&instance).expect("the layout is known"),
        compact,
    };
    let mut decoded = Vec::new();
    let mut lost = 0;
    for cpu in instance.cpus() {
        let before = overrun(&instance, cpu);
        let mut collector = Collector {
            encoder: &mut encoder,
            bundles: Vec::new(),
        };
        let counts = read_all(&instance, cpu, &reader, &mut collector);
        assert_eq!(counts.invalid_records, 0);
        // A page that is full has no room for the number of events that were lost before it.
        match counts.uncounted_losses {
            0 => assert_eq!(counts.lost_events, before, "CPU {cpu}"),
            _ => assert!(counts.lost_events < before, "CPU {cpu}"),
        }
        lost += before;
        for bundle in &collector.bundles {
            decode(bundle, &mut decoded);
        }
    }
    if compact.is_some() {
        // Columns lack the thread that ran.
        for event in &mut printed {
            let is_column =
                event.text.starts_with("sched_switch") || event.text.starts_with("sched_waking");
            if is_column {
                event.pid = None;
                event.text = columns_of(&event.text);
            }
        }
    }
    printed.sort();
    decoded.sort();
    let first = printed
        .iter()
        .zip(&decoded)
        .find(|(printed, decoded)| printed != decoded);
    assert_eq!(
        first, None,
        "the first event that differs: printed, decoded"
    );
    assert_eq!(printed.len(), decoded.len());
    (decoded.len(), lost)
}

/// Switches threads and calls the system until each CPU has overwritten events.
fn make_load(instance: &Instance) {
    let is_done = AtomicBool::new(false);
    let deadline = Instant::now() + Duration::from_secs(10);
    thread::scope(|scope| {
        for _ in 0..2 * instance.cpus().len() {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    thread::yield_now();
                    let _ = rustix::process::getppid();
                }
            });
        }
        while instance
            .cpus()
            .iter()
            .any(|cpu| overrun(instance, *cpu) == 0)
        {
            assert!(Instant::now() < deadline, "no CPU has overwritten events");
            thread::sleep(Duration::from_millis(2));
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

fn overrun(instance: &Instance, cpu: u32) -> u64 {
    let stats = instance.read(&format!("per_cpu/cpu{cpu}/stats"));
    CpuStats::parse(&stats.expect("the kernel counts")).overrun
}

/// Reads a CPU's pages.
fn read_all(
    instance: &Instance,
    cpu: u32,
    reader: &PageReader,
    collector: &mut Collector<'_>,
) -> CpuCounts {
    let pages = instance.pages_of(cpu).expect("the pages");
    let mut page = vec![0; reader.layout.size_bytes()];
    let mut state = CpuState::new(cpu);
    let mut buffers = BundleBuffers::default();
    let mut bundle = BundleBuilder::begin(&mut buffers, &mut state, None);
    let mut seen = SeenThreads::default();
    while let Ok(read) = rustix::io::read(&pages, &mut page[..]) {
        assert_eq!(read, page.len());
        bundle
            .add_page(&page, reader, &mut seen, collector)
            .expect("the page is sound");
    }
    bundle.end(collector);
    *state.counts()
}

/// Parses a line such as `  app-7  [001] d..2.  12.345678: sched_waking: comm=app pid=7 ..`.
fn printed_event(line: &str) -> Option<Event> {
    let (head, rest) = line.split_once("] ").filter(|_| !line.starts_with('#'))?;
    let (task, cpu) = head.rsplit_once('[')?;
    let (_, pid) = task.trim_end().rsplit_once('-')?;
    let mut words = rest.trim_start().splitn(3, ' ');
    let (_flags, time, text) = (words.next()?, words.next()?, words.next()?);
    let time = match time {
        // More blanks stand before a short time.
        "" => text.trim_start().split_once(": ")?,
        time => (time.strip_suffix(':')?, text),
    };
    let (seconds, microseconds) = time.0.split_once('.')?;
    Some(Event {
        time_us: seconds.parse::<u64>().ok()? * 1_000_000 + microseconds.parse::<u64>().ok()?,
        cpu: cpu.parse().ok()?,
        pid: Some(pid.parse().ok()?),
        text: time.1.trim_end().to_owned(),
    })
}

/// Returns what columns have of a printed event.
fn columns_of(text: &str) -> String {
    match text.split_once(" ==> ") {
        Some((previous, next)) => {
            let (_, state) = previous.rsplit_once(' ').expect("a state");
            format!("sched_switch: {state} ==> {next}")
        }
        None => text.to_owned(),
    }
}

/// Decodes a bundle, and prints its events as the kernel does.
fn decode(bundle: &[u8], events: &mut Vec<Event>) {
    let bundle = FtraceEventBundleDecoder::new(bundle);
    let cpu = bundle.cpu().expect("a number").expect("a CPU");
    for event in bundle.event() {
        let event = event.expect("an event");
        let text = if let Some(it) = event.sched_switch().expect("valid") {
            format!(
                "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> next_comm={} \
                 next_pid={} next_prio={}",
                it.prev_comm().unwrap().unwrap(),
                it.prev_pid().unwrap().unwrap(),
                it.prev_prio().unwrap().unwrap(),
                state(it.prev_state().unwrap().unwrap()),
                it.next_comm().unwrap().unwrap(),
                it.next_pid().unwrap().unwrap(),
                it.next_prio().unwrap().unwrap()
            )
        } else if let Some(it) = event.sched_waking().expect("valid") {
            format!(
                "sched_waking: comm={} pid={} prio={} target_cpu={:03}",
                it.comm().unwrap().unwrap(),
                it.pid().unwrap().unwrap(),
                it.prio().unwrap().unwrap(),
                it.target_cpu().unwrap().unwrap()
            )
        } else if let Some(it) = event.sys_enter().expect("valid") {
            let args: Vec<String> = it.args().map(|arg| format!("{:x}", arg.unwrap())).collect();
            format!(
                "sys_enter: NR {} ({})",
                it.id().unwrap().unwrap(),
                args.join(", ")
            )
        } else if let Some(it) = event.sys_exit().expect("valid") {
            let result = it.ret().unwrap().unwrap();
            format!("sys_exit: NR {} = {result}", it.id().unwrap().unwrap())
        } else {
            panic!("an event that was not recorded");
        };
        events.push(Event {
            time_us: rounded_us(event.timestamp().unwrap().unwrap()),
            cpu,
            pid: Some(event.pid().unwrap().unwrap()),
            text,
        });
    }
    let Some(columns) = bundle.compact_sched().expect("valid") else {
        return;
    };
    let names: Vec<&str> = columns.intern_table().map(Result::unwrap).collect();
    let mut time_ns = 0;
    let mut add = |delta: u64, text: String| {
        time_ns += delta;
        events.push(Event {
            time_us: rounded_us(time_ns),
            cpu,
            pid: None,
            text,
        });
    };
    let mut states = columns.switch_prev_state();
    let mut pids = columns.switch_next_pid();
    let mut prios = columns.switch_next_prio();
    let mut comms = columns.switch_next_comm_index();
    for delta in columns.switch_timestamp() {
        let text = format!(
            "sched_switch: prev_state={} ==> next_comm={} next_pid={} next_prio={}",
            state(states.next().unwrap().unwrap()),
            names[comms.next().unwrap().unwrap() as usize],
            pids.next().unwrap().unwrap(),
            prios.next().unwrap().unwrap()
        );
        add(delta.unwrap(), text);
    }
    time_ns = 0;
    let mut add = |delta: u64, text: String| {
        time_ns += delta;
        events.push(Event {
            time_us: rounded_us(time_ns),
            cpu,
            pid: None,
            text,
        });
    };
    let mut pids = columns.waking_pid();
    let mut prios = columns.waking_prio();
    let mut cpus = columns.waking_target_cpu();
    let mut comms = columns.waking_comm_index();
    for delta in columns.waking_timestamp() {
        let text = format!(
            "sched_waking: comm={} pid={} prio={} target_cpu={:03}",
            names[comms.next().unwrap().unwrap() as usize],
            pids.next().unwrap().unwrap(),
            prios.next().unwrap().unwrap(),
            cpus.next().unwrap().unwrap()
        );
        add(delta.unwrap(), text);
    }
}

/// Rounds as the kernel does when it prints a time.
const fn rounded_us(time_ns: u64) -> u64 {
    (time_ns + 500) / 1000
}

/// Returns a thread's state as the kernel prints it.
fn state(bits: i64) -> String {
    const NAMES: [(i64, &str); 8] = [
        (0x01, "S"),
        (0x02, "D"),
        (0x04, "T"),
        (0x08, "t"),
        (0x10, "X"),
        (0x20, "Z"),
        (0x40, "P"),
        (0x80, "I"),
    ];
    let names: Vec<&str> = NAMES
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    let mut text = match names.is_empty() {
        true => "R".to_owned(),
        false => names.join("|"),
    };
    if bits & 0x100 != 0 {
        text.push('+');
    }
    text
}

/// A configuration with events by name.
fn config(events: &[&str], is_compact: bool) -> Config {
    let mut config = Config::decode(&[]).expect("an empty configuration");
    config.events = events.iter().map(|&event| event.to_owned()).collect();
    config.is_compact = is_compact;
    config
}

const EVENTS: [&str; 4] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
];

#[test]
fn events_are_those_that_the_kernel_prints() {
    with_tracefs(|| {
        let tracefs = Tracefs::find().expect("tracefs is mounted");
        for run in 0..RUNS {
            let (events, lost) = compare(&tracefs, &config(&EVENTS, false));
            assert!(
                events > 100 && lost > 0,
                "run {run}: {events} events, {lost} lost"
            );
        }
    });
}

#[test]
fn columns_have_what_the_kernel_prints() {
    with_tracefs(|| {
        let tracefs = Tracefs::find().expect("tracefs is mounted");
        for run in 0..RUNS {
            let (events, lost) = compare(&tracefs, &config(&EVENTS, true));
            assert!(
                events > 100 && lost > 0,
                "run {run}: {events} events, {lost} lost"
            );
        }
    });
}

#[test]
fn instances_of_processes_that_have_ended_are_removed() {
    with_tracefs(|| {
        let tracefs = Tracefs::find().expect("tracefs is mounted");
        let ours = tracefs.new_instance().expect("an instance");
        let left = tracefs.leave_instance_of_another_process();
        tracefs.remove_left();
        assert!(ours.has("trace"));
        assert!(!left.exists());
    });
}
