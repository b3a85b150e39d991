//! Decodes bundles of kernel events: both the compact form of scheduling events and the verbose one.

use protozero::DecodeError;
use tracezero_kernel::protos::ftrace_event_bundle::CompactSchedDecoder;
use tracezero_kernel::protos::{
    FtraceClock, FtraceEventBundleDecoder, FtraceEventDecoder, SysEnterFtraceEventDecoder,
};

use super::event::{Call, NO_CPU, Tid};
use crate::clocks::{BOOTTIME_CLOCK_ID, GlobalClocks};
use crate::names::{NameId, NameTable};

/// The cores that a kernel may have, as in Perfetto's tools. Bundles of further ones are malformed.
const CPUS_MAX: u32 = 1024;
/// The id of `CLOCK_MONOTONIC_RAW` in a trace.
const MONOTONIC_RAW_CLOCK_ID: u32 = 5;
/// The flag of `task_newtask` that makes a thread of the same process.
const CLONE_THREAD: u64 = 0x1_0000;
/// The flags of an event that an interrupt wrote: `TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_SOFTIRQ`.
const INTERRUPT_FLAGS: u32 = 0x18;

/// A decoded bundle. Its memory is used again for the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Bundle {
    pub(super) cpu: u16,
    /// True if the kernel lost events of this core before those of the bundle.
    pub(super) has_lost: bool,
    /// True if a page of the kernel could not be read as a whole: events behind these are missing.
    pub(super) has_errors: bool,
    /// The time of the last event of this core in the bundle before; 0 if this is the first one.
    pub(super) previous_end_ns: Option<u64>,
    /// The events and their times, in order.
    pub(super) entries: Vec<(u64, Entry)>,
    interned: Vec<NameId>,
}

/// An event of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Switch {
        /// The thread before and its name; `None` in the compact form.
        prev: Option<(Tid, NameId)>,
        prev_state: u16,
        next: Tid,
        next_name: NameId,
    },
    Waking {
        tid: Tid,
        name: NameId,
        /// The thread that ran; `None` in the compact form.
        waker: Option<Tid>,
        target_cpu: u16,
        is_interrupt: bool,
    },
    NewThread {
        tid: Tid,
        name: NameId,
        parent: Tid,
        is_thread: bool,
    },
    Freed {
        tid: Tid,
        /// The thread that ran.
        running: Option<Tid>,
    },
    Renamed {
        tid: Tid,
        name: NameId,
        /// The thread that ran: not always the one that gets the name.
        running: Option<Tid>,
    },
    CallBegin {
        tid: Tid,
        call: Call,
    },
    CallEnd(Tid),
    /// Any other event, with the thread that ran.
    Other(Option<Tid>),
}

/// The reason why the events of a bundle cannot be used, or not all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BundleError {
    Malformed,
    /// Its times cannot be converted to the trace clock.
    UnknownClock,
}

/// Converts the times of a bundle to the trace clock.
#[derive(Clone, Copy, Debug)]
struct BundleClock<'a> {
    clocks: &'a GlobalClocks,
    clock_id: u32,
    /// What is added to a time to get one of the clock with the id.
    offset_ns: i64,
}

impl From<DecodeError> for BundleError {
    fn from(_: DecodeError) -> Self {
        Self::Malformed
    }
}

impl Bundle {
    /// Decodes a bundle in place of the one before. If it fails, the events before the fault are
    /// there, and `cpu` is right if the bundle has one.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        clocks: &GlobalClocks,
        names: &mut NameTable,
    ) -> Result<(), BundleError> {
        self.entries.clear();
        self.cpu = NO_CPU;
        let bundle = FtraceEventBundleDecoder::new(bytes);
        let cpu = bundle.cpu()?.filter(|cpu| *cpu < CPUS_MAX);
        self.cpu = cpu.ok_or(BundleError::Malformed)? as u16;
        self.has_lost = bundle.lost_events()?.unwrap_or_default();
        self.has_errors = bundle.error().next().is_some();
        self.previous_end_ns = None;
        let clock = BundleClock::of(&bundle, clocks)?;
        let decoded = self.decode_events(&bundle, clock, names);
        self.entries.sort_by_key(|(time_ns, _)| *time_ns);
        decoded
    }

    fn decode_events(
        &mut self,
        bundle: &FtraceEventBundleDecoder<'_>,
        clock: BundleClock<'_>,
        names: &mut NameTable,
    ) -> Result<(), BundleError> {
        if let Some(time @ 1..) = bundle.previous_bundle_end_timestamp()? {
            self.previous_end_ns = Some(clock.to_trace_ns(time)?);
        }
        for event in bundle.event() {
            self.decode_event(&event?, clock, names)?;
        }
        match bundle.compact_sched()? {
            Some(compact) => self.decode_compact(compact, clock, names),
            None => Ok(()),
        }
    }

    fn decode_event(
        &mut self,
        event: &FtraceEventDecoder<'_>,
        clock: BundleClock<'_>,
        names: &mut NameTable,
    ) -> Result<(), BundleError> {
        let time = event.timestamp()?.ok_or(BundleError::Malformed)?;
        let time_ns = clock.to_trace_ns(time)?;
        let running = event.pid()?.and_then(|pid| Tid::new(pid as i32));
        let entry = decode_entry(event, running, names)?;
        let entry = entry.unwrap_or(Entry::Other(running));
        self.entries.push((time_ns, entry));
        Ok(())
    }

    fn decode_compact(
        &mut self,
        compact: CompactSchedDecoder<'_>,
        clock: BundleClock<'_>,
        names: &mut NameTable,
    ) -> Result<(), BundleError> {
        self.interned.clear();
        for name in compact.intern_table() {
            self.interned.push(names.intern(name?));
        }
        let mut times = Times::default();
        let mut states = compact.switch_prev_state();
        let mut tids = compact.switch_next_pid();
        let mut indexes = compact.switch_next_comm_index();
        for delta in compact.switch_timestamp() {
            let time_ns = clock.to_trace_ns(times.add(delta?)?)?;
            let switch = Entry::Switch {
                prev: None,
                prev_state: next(&mut states)? as u16,
                next: tid(next(&mut tids)?)?,
                next_name: self.interned_name(next(&mut indexes)?)?,
            };
            self.entries.push((time_ns, switch));
        }
        let mut times = Times::default();
        let mut tids = compact.waking_pid();
        let mut cpus = compact.waking_target_cpu();
        let mut indexes = compact.waking_comm_index();
        let mut flags = compact.waking_common_flags();
        for delta in compact.waking_timestamp() {
            let time_ns = clock.to_trace_ns(times.add(delta?)?)?;
            let waking = Entry::Waking {
                tid: tid(next(&mut tids)?)?,
                name: self.interned_name(next(&mut indexes)?)?,
                waker: None,
                target_cpu: cpu(next(&mut cpus)?),
                // Old producers do not write the flags.
                is_interrupt: flags.next().transpose()?.unwrap_or_default() & INTERRUPT_FLAGS != 0,
            };
            self.entries.push((time_ns, waking));
        }
        Ok(())
    }

    fn interned_name(&self, index: u32) -> Result<NameId, BundleError> {
        let name = self.interned.get(index as usize);
        name.copied().ok_or(BundleError::Malformed)
    }
}

/// Decodes the kinds of events of which thread states are made. Returns `None` for all others.
fn decode_entry(
    event: &FtraceEventDecoder<'_>,
    running: Option<Tid>,
    names: &mut NameTable,
) -> Result<Option<Entry>, BundleError> {
    let mut name = |name: Option<&str>| names.intern(name.unwrap_or_default());
    let entry = if let Some(call) = event.sys_enter()? {
        match (running, decode_call(call)?) {
            (Some(tid), Some(call)) => Entry::CallBegin { tid, call },
            _ => return Ok(None),
        }
    } else if event.sys_exit()?.is_some() {
        match running {
            Some(tid) => Entry::CallEnd(tid),
            None => return Ok(None),
        }
    } else if let Some(switch) = event.sched_switch()? {
        let prev = tid(switch.prev_pid()?.unwrap_or_default())?;
        Entry::Switch {
            prev: Some((prev, name(switch.prev_comm()?))),
            prev_state: switch.prev_state()?.unwrap_or_default() as u16,
            next: tid(switch.next_pid()?.unwrap_or_default())?,
            next_name: name(switch.next_comm()?),
        }
    } else if let Some(waking) = event.sched_waking()? {
        Entry::Waking {
            tid: tid(waking.pid()?.unwrap_or_default())?,
            name: name(waking.comm()?),
            waker: running,
            target_cpu: cpu(waking.target_cpu()?.unwrap_or(-1)),
            // The verbose form has no flags. A core without a thread wakes in interrupts alone.
            is_interrupt: running == Some(Tid::IDLE),
        }
    } else if let Some(new) = event.task_newtask()? {
        let flags = new.clone_flags()?.unwrap_or_default();
        Entry::NewThread {
            tid: tid(new.pid()?.unwrap_or_default())?,
            name: name(new.comm()?),
            parent: running.ok_or(BundleError::Malformed)?,
            is_thread: flags & CLONE_THREAD != 0,
        }
    } else if let Some(renamed) = event.task_rename()? {
        Entry::Renamed {
            tid: tid(renamed.pid()?.unwrap_or_default())?,
            name: name(renamed.newcomm()?),
            running,
        }
    } else if let Some(freed) = event.sched_process_free()? {
        Entry::Freed {
            tid: tid(freed.pid()?.unwrap_or_default())?,
            running,
        }
    } else {
        return Ok(None);
    };
    Ok(Some(entry))
}

/// Decodes a system call. Returns `None` if it has no number: a tracer has cancelled it.
fn decode_call(call: SysEnterFtraceEventDecoder<'_>) -> Result<Option<Call>, BundleError> {
    let Ok(number) = u32::try_from(call.id()?.unwrap_or(-1)) else {
        return Ok(None);
    };
    let mut args = [0; Call::ARGS];
    for (place, arg) in args.iter_mut().zip(call.args()) {
        *place = arg?;
    }
    Ok(Some(Call { number, args }))
}

fn tid(tid: i32) -> Result<Tid, BundleError> {
    Tid::new(tid).ok_or(BundleError::Malformed)
}

fn cpu(cpu: i32) -> u16 {
    let is_valid = |cpu: &u16| u32::from(*cpu) < CPUS_MAX;
    u16::try_from(cpu).ok().filter(is_valid).unwrap_or(NO_CPU)
}

/// Returns the next element of a column, which is as long as that of the times.
fn next<T>(column: &mut impl Iterator<Item = Result<T, DecodeError>>) -> Result<T, BundleError> {
    Ok(column.next().ok_or(BundleError::Malformed)??)
}

/// Adds up the times of a column: the first is absolute, the others are differences.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    last: u64,
}

impl Times {
    fn add(&mut self, delta: u64) -> Result<u64, BundleError> {
        self.last = self.last.checked_add(delta).ok_or(BundleError::Malformed)?;
        Ok(self.last)
    }
}

impl<'a> BundleClock<'a> {
    fn of(
        bundle: &FtraceEventBundleDecoder<'_>,
        clocks: &'a GlobalClocks,
    ) -> Result<Self, BundleError> {
        let (clock_id, offset_ns) = match bundle.ftrace_clock()?.unwrap_or_default() {
            FtraceClock::UNSPECIFIED => (BOOTTIME_CLOCK_ID, 0),
            FtraceClock::MONO_RAW => (MONOTONIC_RAW_CLOCK_ID, 0),
            // These are no clocks of the trace; the bundle has a reading of both.
            FtraceClock::GLOBAL | FtraceClock::LOCAL => {
                let times = (bundle.boot_timestamp()?, bundle.ftrace_timestamp()?);
                let (Some(boot), Some(ftrace)) = times else {
                    return Err(BundleError::UnknownClock);
                };
                let offset_ns = boot.checked_sub(ftrace);
                (BOOTTIME_CLOCK_ID, offset_ns.ok_or(BundleError::Malformed)?)
            }
            _ => return Err(BundleError::UnknownClock),
        };
        Ok(Self {
            clocks,
            clock_id,
            offset_ns,
        })
    }

    fn to_trace_ns(self, time: u64) -> Result<u64, BundleError> {
        let time = time.checked_add_signed(self.offset_ns);
        let converted = self
            .clocks
            .to_trace_ns(self.clock_id, time.ok_or(BundleError::Malformed)?);
        converted.map_err(|_| BundleError::UnknownClock)
    }
}
