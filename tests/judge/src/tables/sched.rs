//! The kernel's events about cores and threads, and the times in which events are missing.

use std::collections::BTreeMap;

use perfetto_protos::ftrace_event::FtraceEvent;
use perfetto_protos::ftrace_event::ftrace_event::Event;
use perfetto_protos::ftrace_event_bundle::FtraceEventBundle;
use perfetto_protos::ftrace_event_bundle::ftrace_event_bundle::CompactSched;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_packet::trace_packet::Data;

/// The flag of a new thread that is of the process of the thread that began it.
const CLONE_THREAD: u64 = 0x1_0000;

/// The events of the kernel, in the order of time.
pub(super) struct KernelEvents {
    pub(super) events: Vec<KernelEvent>,
    /// The time of the last event.
    pub(super) end_ns: u64,
}

/// An event of the kernel.
pub(super) struct KernelEvent {
    pub(super) time_ns: u64,
    pub(super) cpu: u32,
    /// The thread that the core ran, if the event has it. The compact form does not.
    pub(super) running: Option<i32>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// The core goes over to another thread.
    Switch {
        /// The state of the thread before.
        bits: u16,
        next: i32,
    },
    /// A thread is woken.
    Woken(i32),
    /// The running thread begins another one.
    Begun {
        tid: i32,
        is_of_same_process: bool,
    },
    Renamed(i32),
    /// The kernel forgets a thread. Its number may be used again.
    Freed(i32),
    /// No event, but the last time before events of the core that are missing.
    Missing {
        until_ns: u64,
    },
    Other,
}

/// How far the events of a core have been read.
#[derive(Default)]
struct CoreProgress {
    last_ns: u64,
    missing_since_ns: Option<u64>,
}

impl KernelEvents {
    /// Reads the events. `None` if they are on another clock than BOOTTIME.
    pub(super) fn of(packets: &[TracePacket]) -> Option<Self> {
        let mut cores: BTreeMap<u32, CoreProgress> = BTreeMap::new();
        let mut all = Vec::new();
        let packets = packets.iter().filter(|packet| !packet.has_machine_id());
        let bundles = packets.filter_map(|packet| match &packet.data {
            Some(Data::FtraceEvents(bundle)) => Some(bundle),
            _ => None,
        });
        for bundle in bundles {
            if bundle.ftrace_clock.is_some_and(|clock| clock.value() != 0) {
                return None;
            }
            let cpu = bundle.cpu();
            let core = cores.entry(cpu).or_default();
            // Bundles in between are missing.
            let previous_end_ns = bundle.previous_bundle_end_timestamp();
            if previous_end_ns > core.last_ns {
                core.miss();
                all.extend(core.go_on(cpu, previous_end_ns));
            }
            if bundle.lost_events() {
                core.miss();
            }
            for event in events_of(bundle) {
                all.extend(core.go_on(cpu, event.time_ns));
                all.push(event);
            }
            // The rest of a page of the kernel could not be read.
            if !bundle.error.is_empty() {
                core.miss();
            }
        }
        let end_ns = cores.values().map(|core| core.last_ns).max().unwrap_or(0);
        for (cpu, mut core) in cores {
            all.extend(core.go_on(cpu, u64::MAX));
        }
        // A stable sort: events of a core with the same time keep their order.
        all.sort_by_key(|event| (event.time_ns, matches!(event.kind, Kind::Missing { .. })));
        Some(Self {
            events: all,
            end_ns,
        })
    }
}

impl CoreProgress {
    /// Notes that events are missing after the last one.
    fn miss(&mut self) {
        self.missing_since_ns.get_or_insert(self.last_ns);
    }

    /// Goes on to a time from which on there are events. Returns the gap before it.
    fn go_on(&mut self, cpu: u32, time_ns: u64) -> Option<KernelEvent> {
        self.last_ns = time_ns.max(self.last_ns);
        let since_ns = self.missing_since_ns.take()?;
        Some(KernelEvent {
            time_ns: since_ns.min(time_ns),
            cpu,
            running: None,
            kind: Kind::Missing { until_ns: time_ns },
        })
    }
}

/// Returns the events of a bundle, in the order of time.
fn events_of(bundle: &FtraceEventBundle) -> Vec<KernelEvent> {
    let cpu = bundle.cpu();
    let mut events: Vec<_> = bundle.event.iter().map(|it| verbose(cpu, it)).collect();
    if let Some(columns) = bundle.compact_sched.as_ref() {
        events.extend(compact(cpu, columns));
    }
    events.sort_by_key(|event| event.time_ns);
    events
}

fn verbose(cpu: u32, event: &FtraceEvent) -> KernelEvent {
    let mut running = event.pid.map(u32::cast_signed);
    let kind = match &event.event {
        Some(Event::SchedSwitch(switch)) => {
            running = Some(switch.prev_pid());
            Kind::Switch {
                bits: switch.prev_state() as u16,
                next: switch.next_pid(),
            }
        }
        Some(Event::SchedWaking(woken)) => Kind::Woken(woken.pid()),
        Some(Event::TaskNewtask(new)) => Kind::Begun {
            tid: new.pid(),
            is_of_same_process: new.clone_flags() & CLONE_THREAD != 0,
        },
        Some(Event::TaskRename(renamed)) => Kind::Renamed(renamed.pid()),
        Some(Event::SchedProcessFree(freed)) => Kind::Freed(freed.pid()),
        _ => Kind::Other,
    };
    KernelEvent {
        time_ns: event.timestamp(),
        cpu,
        running,
        kind,
    }
}

/// Returns the events of columns. Their times are differences.
fn compact(cpu: u32, columns: &CompactSched) -> Vec<KernelEvent> {
    let event = |(time_ns, kind)| KernelEvent {
        time_ns,
        cpu,
        running: None,
        kind,
    };
    let states = columns.switch_prev_state.iter();
    let switches = states.zip(&columns.switch_next_pid);
    let switches = switches.map(|(bits, next)| Kind::Switch {
        bits: *bits as u16,
        next: *next,
    });
    let switches = times(&columns.switch_timestamp).zip(switches);
    let wakings = columns.waking_pid.iter().map(|tid| Kind::Woken(*tid));
    let wakings = times(&columns.waking_timestamp).zip(wakings);
    switches.chain(wakings).map(event).collect()
}

fn times(differences: &[u64]) -> impl Iterator<Item = u64> {
    let differences = differences.iter();
    differences.scan(0, |time_ns, difference| {
        *time_ns += difference;
        Some(*time_ns)
    })
}
