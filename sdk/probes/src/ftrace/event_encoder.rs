//! From records to packets: which events a session records, how each is encoded, and the packets that
//! have them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use tracezero::protos::TracePacket;
use tracezero::protos::trace_packet::SequenceFlags;
use tracezero_kernel::protos::KernelPacket;
use tracezero_kernel::syscalls::{self, Machine};

use super::Ftrace;
use super::bundle::{BundleBuilder, PageHandler};
use super::compact_sched::{CompactFormatError, CompactFormats, FieldLayout};
use super::config::Config;
use super::error::FtraceError;
use super::event_names::{self, EventName};
use super::event_plan::EventPlans;
use super::event_table::published_event;
use super::format::EventFormat;
use super::generic_events::GenericEncoding;
use super::page::Record;
use super::printk_formats::PrintkFormats;
use super::stats::SetupReport;
use super::symbols::{KernelSymbols, SymbolIndexes};
use super::tracefs::{Instance, Tracefs};
use crate::instance_key::InstanceKey;
use crate::seen_threads::SeenThreads;

/// The kernel's list of its functions.
const KALLSYMS: &str = "/proc/kallsyms";

/// The events that become columns.
const SWITCH: (&str, &str) = ("sched", "sched_switch");
const WAKING: (&str, &str) = ("sched", "sched_waking");

/// The events that record system calls.
const SYSCALLS: [(&str, &str); 2] = [("raw_syscalls", "sys_enter"), ("raw_syscalls", "sys_exit")];

/// `InternedData.kernel_symbols`, and the fields of an `InternedString`.
const KERNEL_SYMBOLS: u32 = 26;
const SYMBOL_IID: u32 = 1;
const SYMBOL_NAME: u32 = 2;

/// Encodes the events of one session, and writes the packets that have them.
pub(super) struct EventEncoder {
    key: InstanceKey,
    plans: EventPlans,
    indexes: SymbolIndexes,
    /// `None` if the session wants no names of functions.
    symbols: Option<KernelSymbols>,
}

impl EventEncoder {
    /// Enables the events of a session, and plans how to encode them. Returns the formats of those that
    /// become columns. What is not possible is in `report`.
    pub(super) fn set_up(
        key: InstanceKey,
        config: &Config,
        tracefs: &Tracefs,
        instance: &Instance,
        report: &mut SetupReport,
    ) -> (Self, Option<CompactFormats>) {
        let generic_encoding = match config.is_generic_dense {
            true => GenericEncoding::Denser,
            false => GenericEncoding::Legacy,
        };
        let texts = tracefs.printk_formats().unwrap_or_default();
        let mut plans = EventPlans::new(PrintkFormats::parse(&texts), generic_encoding);
        let mut named = event_names::look_up(config, tracefs);
        report.unknown.extend(named.unknown);
        let syscalls = syscall_filter(config, report);
        if syscalls.is_some() {
            named.events.extend(SYSCALLS.map(EventName::new));
        }
        let mut enabled = BTreeMap::new();
        for name in named.events {
            let filter = syscalls
                .as_deref()
                .filter(|_| SYSCALLS.map(EventName::new).contains(&name));
            match enable(&name, filter, config, tracefs, instance) {
                Ok(Some(format)) => {
                    plans.add(&name.group, &name.event, &format);
                    enabled.insert(name, format);
                }
                Ok(None) => {}
                Err(error) => report.failed.push(format!("{}: {error}", name.path())),
            }
        }
        let compact = match config.is_compact {
            true => columns(&enabled, tracefs, report),
            false => None,
        };
        let symbols = config.has_symbols.then(|| {
            let symbols = fs::read_to_string(KALLSYMS).unwrap_or_default();
            KernelSymbols::parse(&symbols)
        });
        if symbols.as_ref().is_some_and(|symbols| symbols.len() == 0) {
            report.failed.push(format!(
                "symbolize_ksyms: {KALLSYMS} hides the addresses of functions: run as root, or write 0 to \
                 /proc/sys/kernel/kptr_restrict"
            ));
        }
        let encoder = Self {
            key,
            plans,
            indexes: SymbolIndexes::default(),
            symbols,
        };
        (encoder, compact)
    }

    /// Returns the functions that the session can name.
    pub(super) const fn symbols(&self) -> Option<&KernelSymbols> {
        self.symbols.as_ref()
    }
}

impl PageHandler for EventEncoder {
    fn record(
        &mut self,
        record: Record<'_>,
        bundle: &mut BundleBuilder<'_>,
        seen: &mut SeenThreads,
    ) {
        let Some(plan) = self.plans.get(record.id()) else {
            return;
        };
        if let Some(descriptor) = plan.descriptor() {
            bundle.add_descriptor(descriptor.number, &descriptor.fields);
        }
        let Record {
            timestamp_ns,
            payload,
        } = record;
        let indexes = &mut self.indexes;
        // The bundle counts invalid records.
        let _ = bundle.add_event(timestamp_ns, |out| {
            plan.encode(timestamp_ns, payload, out, seen, indexes)
        });
    }

    fn bundle_ended(&mut self, bundle: &[u8]) {
        let names = self.symbols.as_ref();
        let addresses = self.indexes.addresses();
        Ftrace::with_instance(self.key, |cx| {
            cx.packet(|packet| {
                packet
                    .as_message_mut()
                    .append_bytes::<{ KernelPacket::FTRACE_EVENTS_FIELD_NUMBER }>(bundle);
                if let Some(names) = names
                    && !addresses.is_empty()
                {
                    append_names(packet, addresses, names);
                }
            });
        });
        // Each packet names its functions, so none depends on another.
        self.indexes.clear();
    }
}

/// Appends the names of functions. Their ids are valid in this packet alone.
fn append_names(packet: &mut TracePacket<'_>, addresses: &[u64], names: &KernelSymbols) {
    packet.set_sequence_flags(
        SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED
            .0
            .cast_unsigned(),
    );
    let mut interned = packet.begin_interned_data();
    for (iid, address) in (1..).zip(addresses) {
        if let Some(name) = names.name(*address) {
            let message = interned.as_message_mut();
            let mut symbol = message.begin_nested::<KERNEL_SYMBOLS>();
            symbol.append_uint64::<SYMBOL_IID>(iid);
            symbol.append_bytes::<SYMBOL_NAME>(name.as_bytes());
        }
    }
}

/// Enables an event, behind a filter if there is one. Returns the format of its records, or `None` if the session leaves it out.
fn enable(
    name: &EventName,
    filter: Option<&str>,
    config: &Config,
    tracefs: &Tracefs,
    instance: &Instance,
) -> Result<Option<EventFormat>, FtraceError> {
    let unreadable = |error: &dyn fmt::Display| FtraceError::Config(format!("its format: {error}"));
    let format = match tracefs.format(&name.group, &name.event) {
        Ok(text) => EventFormat::parse(&text).map_err(|error| unreadable(&error))?,
        // It was never changed.
        Err(_) if is_print(name) => EventFormat::of_print(),
        Err(error) => return Err(unreadable(&error)),
    };
    if config.is_without_generic && published_event(&name.group, &name.event).is_none() {
        return Ok(None);
    }
    match name.group.as_str() {
        "ftrace" if is_print(name) => copy_markers(instance)?,
        // The tracer's own events are always on.
        "ftrace" => {}
        group => {
            if let Some(filter) = filter {
                instance.write(&format!("events/{}/filter", name.path()), filter)?;
            }
            let enabled = instance.write(&format!("events/{}/enable", name.path()), "1");
            // Some kernels let the list alone be written.
            let added = || instance.append("set_event", &format!("{group}:{}", name.event));
            enabled.or_else(|error| added().map_err(|_| error))?;
        }
    }
    Ok(Some(format))
}

fn is_print(name: &EventName) -> bool {
    (name.group.as_str(), name.event.as_str()) == ("ftrace", "print")
}

/// Copies what programs write into the tracer of the whole machine.
fn copy_markers(instance: &Instance) -> Result<(), FtraceError> {
    const OPTION: &str = "options/copy_trace_marker";
    if !instance.is_own() {
        // Programs write into that instance.
        return Ok(());
    }
    if instance.has(OPTION) {
        return instance.write(OPTION, "1");
    }
    Err(FtraceError::Config(
        "this kernel does not copy what programs write to /sys/kernel/tracing/trace_marker (Linux 6.16 \
         does)"
            .to_owned(),
    ))
}

/// Returns the filter that lets only those system calls through that a configuration names. `None` if it
/// names none that the machine has. Names that it does not have are noted.
fn syscall_filter(config: &Config, report: &mut SetupReport) -> Option<String> {
    let machine = rustix::system::uname();
    let machine = Machine::from_uname(&machine.machine().to_string_lossy());
    let mut ids = Vec::new();
    for name in &config.syscalls {
        let number = machine.and_then(|machine| syscalls::number(machine, name));
        match number {
            Some(id) => ids.push(format!("id == {id}")),
            None => report.unknown.push(name.clone()),
        }
    }
    (!ids.is_empty()).then(|| ids.join(" || "))
}

/// Returns the formats of the scheduler's events, if they fit columns.
fn columns(
    enabled: &BTreeMap<EventName, EventFormat>,
    tracefs: &Tracefs,
    report: &mut SetupReport,
) -> Option<CompactFormats> {
    let switch = enabled.get(&EventName::new(SWITCH))?;
    let has_waking = enabled.contains_key(&EventName::new(WAKING));
    // Perfetto's reader knows the columns as one thing, so both events must fit.
    let waking = tracefs.format(WAKING.0, WAKING.1).ok();
    let waking = waking.and_then(|text| EventFormat::parse(&text).ok())?;
    match columns_of(switch, &waking) {
        Ok(formats) if has_waking => Some(formats),
        Ok(formats) => Some(formats.without_waking()),
        Err(error) => {
            report.failed.push(format!("compact_sched: {error}"));
            None
        }
    }
}

/// Returns the formats of the two events, if they fit columns.
pub(super) fn columns_of(
    switch: &EventFormat,
    waking: &EventFormat,
) -> Result<CompactFormats, CompactFormatError> {
    CompactFormats::new(
        switch.id,
        |name| layout(switch, name),
        waking.id,
        |name| layout(waking, name),
    )
}

fn layout<'f>(format: &'f EventFormat, name: &str) -> Option<FieldLayout<'f>> {
    let field = format.field(name)?;
    Some(FieldLayout {
        offset: field.offset,
        size: field.size,
        is_signed: field.is_signed,
        declaration: &field.declaration,
    })
}
