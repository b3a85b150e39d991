//! Collects the kernel's events of a trace.

use std::collections::HashMap;

use protozero::DecodeError;
use tracezero_core::protos::{SystemInfoDecoder, TracePacket};
use tracezero_kernel::protos::FtraceStatsDecoder;
use tracezero_kernel::protos::KernelPacket;
use tracezero_kernel::syscalls::Machine;

use super::builder::TimelineBuilder;
use super::bundle::{Bundle, BundleError, Entry};
use super::event::{Call, CallId, EventKind, KernelEvent, NO_CPU, Tid};
use super::gaps::{Gap, Gaps, LossCounts};
use super::process_tree::ProcessTree;
use super::task_state::KernelVersion;
use super::timelines::KernelTimelines;
use crate::names::{NameId, NameTable};
use crate::trace_reader::TraceReader;

/// The maximum number of events that are kept; they take 800 MB. What threads do from the first
/// event on for which there is no room is unknown.
const EVENTS_MAX: usize = 1 << 25;

/// Collects the kernel's events of a trace, of which [`KernelTimelines`] are made.
///
/// Memory: 24 bytes for each change of a thread's state, while the trace is read. A system call takes
/// memory only if its thread lost the core inside. At most 32 Mi (2^25) events are kept.
///
/// ```
/// use tracezero_reader::kernel::KernelEvents;
/// use tracezero_reader::{Record, TraceReader};
///
/// # let trace = b"\x0a\x02\x40\x01";
/// let mut reader = TraceReader::new(&trace[..]);
/// let mut events = KernelEvents::new();
/// while let Some(record) = reader.next()? {
///     if let Record::Packet(_) = record {
///         events.add(&reader);
///     }
/// }
/// let timelines = events.finish();
/// for thread in timelines.threads() {
///     println!("{} {}", thread.tid, timelines.names().text(thread.name));
/// }
/// # Ok::<(), tracezero_reader::ReadError>(())
/// ```
#[derive(Debug)]
pub struct KernelEvents {
    /// In the order of the file: by time on each core.
    events: Vec<KernelEvent>,
    events_max: usize,
    /// The time of the first event for which there was no room.
    full_ns: Option<u64>,
    calls: Vec<Call>,
    /// By number.
    cpus: Vec<CpuState>,
    gaps: Vec<Gap>,
    losses: LossCounts,
    names: NameTable,
    /// The last name of each thread in the order of the file.
    known_names: HashMap<Tid, NameId>,
    tree: ProcessTree,
    version: Option<KernelVersion>,
    machine: Option<Machine>,
    counts: KernelCounts,
    bundle: Bundle,
}

/// Counts of the kernel's packets and events in a trace, and of problems with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelCounts {
    /// Bundles of events.
    pub bundles: u64,
    /// Switches of cores from one thread to another.
    pub switches: u64,
    /// Times at which a thread was woken.
    pub wakings: u64,
    /// Begins of system calls.
    pub calls: u64,
    /// Packets that are malformed. Their cores have a gap.
    pub malformed: u64,
    /// Bundles whose times are on a clock that the trace does not explain.
    pub unknown_clock: u64,
    /// Switches that are missing, although nothing was lost: a core ran another thread than the last
    /// switch said. What threads did at about these times may be wrong.
    pub missing_switches: u64,
    /// Events for which there was no room.
    pub left_out: u64,
}

/// What is known of a core at the end of its last bundle.
#[derive(Clone, Copy, Debug, Default)]
struct CpuState {
    /// The time of the last event; 0 if there is none.
    last_ns: u64,
    /// The time of the last event before events were lost, if the end of the gap is not known yet.
    gap_begin_ns: Option<u64>,
    /// A system call whose thread has not lost the core yet. It is needed only if that happens.
    call: Option<(u64, Tid, Call)>,
    /// The thread that runs, if an event has told it.
    running: Option<Tid>,
}

impl Default for KernelEvents {
    fn default() -> Self {
        Self::with_limit(EVENTS_MAX)
    }
}

impl KernelEvents {
    /// Creates an instance without events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn with_limit(events_max: usize) -> Self {
        Self {
            events: Vec::new(),
            events_max,
            full_ns: None,
            calls: Vec::new(),
            cpus: Vec::new(),
            gaps: Vec::new(),
            losses: LossCounts::default(),
            names: NameTable::new(),
            known_names: HashMap::new(),
            tree: ProcessTree::default(),
            version: None,
            machine: None,
            counts: KernelCounts::default(),
            bundle: Bundle::default(),
        }
    }

    /// Takes the last packet of a reader. Call it for each [`Record::Packet`](crate::Record::Packet);
    /// packets that are not of the kernel's half are ignored, and so are those of other machines.
    pub fn add<R>(&mut self, reader: &TraceReader<R>) {
        let head = reader.head();
        if head.machine_id.is_some() {
            return;
        }
        let payload = head.payload.of(reader.packet().bytes);
        let added = match head.payload_field {
            KernelPacket::FTRACE_EVENTS_FIELD_NUMBER => {
                let clocks = &reader.state().clocks;
                let mut bundle = std::mem::take(&mut self.bundle);
                let decoded = bundle.decode(payload, clocks, &mut self.names);
                self.add_bundle(&bundle, decoded);
                self.bundle = bundle;
                return;
            }
            KernelPacket::PROCESS_TREE_FIELD_NUMBER => self.tree.add(payload, &mut self.names),
            KernelPacket::FTRACE_STATS_FIELD_NUMBER => self.add_stats(payload),
            TracePacket::SYSTEM_INFO_FIELD_NUMBER => self.set_system(payload),
            _ => return,
        };
        self.counts.malformed += u64::from(added.is_err());
    }

    /// Makes timelines of the events.
    #[must_use]
    pub fn finish(mut self) -> KernelTimelines {
        for index in 0..self.cpus.len() {
            self.keep_call(index as u16);
            self.end_gap(index as u16, u64::MAX);
        }
        let last = self.cpus.iter().map(|cpu| cpu.last_ns).max();
        let end_ns = last
            .unwrap_or_default()
            .min(self.full_ns.unwrap_or(u64::MAX));
        // A stable sort: events of a core stay in their order if they have the same time.
        self.events.sort_by_key(|event| event.time_ns);
        let events = self.events.partition_point(|event| event.time_ns <= end_ns);
        self.events.truncate(events);
        let version = self.version.unwrap_or(KernelVersion::OLD);
        let losses = self.losses.losses();
        let mut builder = TimelineBuilder::new(version, Gaps::new(self.gaps), end_ns);
        builder.add_all(&self.events);
        KernelTimelines::new(
            builder.finish(),
            self.calls,
            self.tree,
            self.names,
            self.machine,
            losses,
            self.counts,
        )
    }

    fn add_stats(&mut self, stats: &[u8]) -> Result<(), DecodeError> {
        for cpu in FtraceStatsDecoder::new(stats).cpu_stats() {
            let cpu = cpu?;
            let number = u32::try_from(cpu.cpu()?.unwrap_or_default()).unwrap_or(u32::MAX);
            let overrun = cpu.overrun()?.unwrap_or_default();
            let uncommitted = cpu.commit_overrun()?.unwrap_or_default();
            let dropped = cpu.dropped_events()?.unwrap_or_default();
            if number < u32::from(NO_CPU) {
                let lost = overrun.saturating_add(uncommitted).saturating_add(dropped);
                self.losses.set(number, lost);
            }
        }
        Ok(())
    }

    fn set_system(&mut self, info: &[u8]) -> Result<(), DecodeError> {
        if let Some(names) = SystemInfoDecoder::new(info).utsname()? {
            let release = names.release()?.unwrap_or_default();
            self.version = KernelVersion::of_release(release).or(self.version);
            let machine = names.machine()?.unwrap_or_default();
            self.machine = Machine::from_uname(machine).or(self.machine);
        }
        Ok(())
    }

    fn add_bundle(&mut self, bundle: &Bundle, decoded: Result<(), BundleError>) {
        self.counts.bundles += 1;
        match decoded {
            Ok(()) => {}
            Err(BundleError::Malformed) => self.counts.malformed += 1,
            Err(BundleError::UnknownClock) => self.counts.unknown_clock += 1,
        }
        if bundle.cpu == NO_CPU {
            return;
        }
        let number = bundle.cpu;
        let cpu = self.cpu(number);
        let last_ns = cpu.last_ns;
        // Packets with bundles are missing if one ends after the last that is there.
        if let Some(end_ns) = bundle.previous_end_ns.filter(|end_ns| *end_ns > last_ns) {
            self.begin_gap(number);
            self.end_gap(number, end_ns);
            self.cpu(number).last_ns = end_ns;
        }
        if bundle.has_lost {
            self.begin_gap(number);
        }
        for (time_ns, entry) in &bundle.entries {
            self.end_gap(number, *time_ns);
            self.add_entry(number, *time_ns, entry);
            let cpu = self.cpu(number);
            cpu.last_ns = cpu.last_ns.max(*time_ns);
        }
        if decoded.is_err() || bundle.has_errors {
            self.begin_gap(number);
        }
    }

    fn cpu(&mut self, number: u16) -> &mut CpuState {
        let index = usize::from(number);
        if index >= self.cpus.len() {
            self.cpus.resize(index + 1, CpuState::default());
        }
        &mut self.cpus[index]
    }

    /// Notes that events of a core are missing after its last one.
    fn begin_gap(&mut self, number: u16) {
        let cpu = self.cpu(number);
        cpu.gap_begin_ns = cpu.gap_begin_ns.or(Some(cpu.last_ns));
        cpu.call = None;
        cpu.running = None;
    }

    fn end_gap(&mut self, number: u16, end_ns: u64) {
        if let Some(begin_ns) = self.cpu(number).gap_begin_ns.take() {
            self.gaps.push(Gap {
                cpu: u32::from(number),
                begin_ns: begin_ns.min(end_ns),
                end_ns,
            });
        }
    }

    fn add_entry(&mut self, cpu: u16, time_ns: u64, entry: &Entry) {
        if let Some(tid) = entry.running() {
            let known = self.cpu(cpu).running.replace(tid);
            if known != Some(tid) {
                if let Some(known) = known {
                    self.counts.missing_switches += 1;
                    // Events that change no state are not kept. The last of them may have told that
                    // the thread still ran.
                    let last_ns = self.cpu(cpu).last_ns;
                    self.push(cpu, last_ns, EventKind::Ran(known));
                }
                self.push(cpu, time_ns, EventKind::Ran(tid));
            }
        }
        match *entry {
            Entry::Switch {
                prev,
                prev_state,
                next,
                next_name,
            } => {
                self.counts.switches += 1;
                self.keep_call(cpu);
                let before = self.cpu(cpu).running.replace(next);
                self.counts.missing_switches += u64::from(before == Some(next));
                if let Some((prev, name)) = prev {
                    self.set_name(cpu, time_ns, prev, name);
                }
                self.push(cpu, time_ns, EventKind::Switch { prev_state, next });
                self.set_name(cpu, time_ns, next, next_name);
            }
            Entry::Waking {
                tid,
                name,
                waker,
                target_cpu,
                is_interrupt,
            } => {
                self.counts.wakings += 1;
                let kind = EventKind::Waking {
                    tid,
                    waker,
                    target_cpu,
                    is_interrupt,
                };
                self.push(cpu, time_ns, kind);
                self.set_name(cpu, time_ns, tid, name);
            }
            Entry::NewThread {
                tid,
                name,
                parent,
                is_thread,
            } => {
                let kind = EventKind::NewThread {
                    tid,
                    parent,
                    is_thread,
                };
                self.push(cpu, time_ns, kind);
                self.known_names.remove(&tid);
                self.set_name(cpu, time_ns, tid, name);
            }
            Entry::Freed { tid, .. } => {
                self.known_names.remove(&tid);
                self.push(cpu, time_ns, EventKind::Freed(tid));
            }
            Entry::Renamed { tid, name, .. } => self.set_name(cpu, time_ns, tid, name),
            Entry::CallBegin { tid, call } => {
                self.counts.calls += 1;
                self.cpu(cpu).call = Some((time_ns, tid, call));
            }
            // If the thread has not lost the core, the call does not matter.
            Entry::CallEnd(tid) => {
                if self.cpu(cpu).call.take().is_none_or(|it| it.1 != tid) {
                    self.push(cpu, time_ns, EventKind::CallEnd(tid));
                }
            }
            Entry::Other(_) => {}
        }
    }

    /// Keeps the system call that the thread of a core is in.
    fn keep_call(&mut self, cpu: u16) {
        let Some((time_ns, tid, call)) = self.cpu(cpu).call.take() else {
            return;
        };
        let id = CallId(self.calls.len() as u32);
        if self.push(cpu, time_ns, EventKind::CallBegin { tid, call: id }) {
            self.calls.push(call);
        }
    }

    fn set_name(&mut self, cpu: u16, time_ns: u64, tid: Tid, name: NameId) {
        if tid != Tid::IDLE && !name.is_none() && self.known_names.insert(tid, name) != Some(name) {
            self.push(cpu, time_ns, EventKind::Named { tid, name });
        }
    }

    /// Keeps an event. Returns false if there is no room for it.
    fn push(&mut self, cpu: u16, time_ns: u64, kind: EventKind) -> bool {
        if self.events.len() >= self.events_max {
            self.full_ns = Some(self.full_ns.map_or(time_ns, |full_ns| full_ns.min(time_ns)));
            self.counts.left_out += 1;
            return false;
        }
        self.events.push(KernelEvent { time_ns, cpu, kind });
        true
    }
}

impl Entry {
    /// Returns the thread that ran on the core at the time of the event and before, if the event says
    /// so.
    const fn running(&self) -> Option<Tid> {
        match *self {
            Self::Switch { prev, .. } => match prev {
                Some((tid, _)) => Some(tid),
                None => None,
            },
            Self::Waking { waker, .. } => waker,
            Self::Freed { running, .. } | Self::Renamed { running, .. } => running,
            Self::NewThread { parent, .. } => Some(parent),
            Self::CallBegin { tid, .. } | Self::CallEnd(tid) => Some(tid),
            Self::Other(tid) => tid,
        }
    }
}
