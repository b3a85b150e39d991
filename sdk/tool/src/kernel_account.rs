//! What a trace has of the kernel, and what the kernel's own buffers have lost.

use std::collections::{BTreeMap, BTreeSet};

use protozero::DecodeError;
use tracezero_kernel::protos::ftrace_stats::Phase;
use tracezero_kernel::protos::{
    FtraceEventBundleDecoder, FtraceStatsDecoder, KernelPacket, KernelPacketDecoder,
};

use crate::table::printable;
use crate::units::plural;

/// The maximum number of events that are listed as not recorded.
const LISTED_EVENTS_MAX: usize = 10;

/// The maximum number of CPUs, and of texts, that are noted.
const NOTED_MAX: usize = 4096;

/// The kernel's events of a trace, and those that are missing.
#[derive(Debug, Default)]
pub(crate) struct KernelAccount {
    events: u64,
    /// By CPU: counts of lost events when the recording began, and now.
    lost: BTreeMap<u64, (u64, u64)>,
    /// CPUs of which events are missing, by the marks in the trace.
    marked: BTreeSet<u32>,
    /// The names of events that the kernel does not have.
    unknown: BTreeSet<String>,
    /// What could not be recorded, each with the reason.
    failed: BTreeSet<String>,
}

/// Returns the name of a field of packets that has the kernel's half; empty for others. It is not in the
/// schema of this command.
pub(crate) const fn packet_name(field: u32) -> &'static str {
    match field {
        KernelPacket::FTRACE_EVENTS_FIELD_NUMBER => "ftrace_events",
        KernelPacket::PROCESS_TREE_FIELD_NUMBER => "process_tree",
        KernelPacket::SYS_STATS_FIELD_NUMBER => "sys_stats",
        KernelPacket::PROCESS_STATS_FIELD_NUMBER => "process_stats",
        KernelPacket::FTRACE_STATS_FIELD_NUMBER => "ftrace_stats",
        KernelPacket::CPU_INFO_FIELD_NUMBER => "cpu_info",
        KernelPacket::INTERRUPT_INFO_FIELD_NUMBER => "interrupt_info",
        _ => "",
    }
}

impl KernelAccount {
    /// Adds a packet of the trace. Returns whether it is one of the kernel's half.
    pub(crate) fn add(&mut self, packet: &[u8]) -> Result<bool, DecodeError> {
        let packet = KernelPacketDecoder::new(packet);
        let bundle = packet.ftrace_events()?;
        let stats = packet.ftrace_stats()?;
        if let Some(bundle) = &bundle {
            self.add_bundle(bundle)?;
        }
        if let Some(stats) = &stats {
            self.add_stats(stats)?;
        }
        let has_others = packet.process_tree()?.is_some()
            || packet.process_stats()?.is_some()
            || packet.sys_stats()?.is_some()
            || packet.cpu_info()?.is_some()
            || packet.interrupt_info()?.is_some();
        Ok(bundle.is_some() || stats.is_some() || has_others)
    }

    fn add_bundle(&mut self, bundle: &FtraceEventBundleDecoder<'_>) -> Result<(), DecodeError> {
        self.events += bundle.event().count() as u64;
        if let Some(columns) = bundle.compact_sched()? {
            self.events += columns.switch_timestamp().count() as u64;
            self.events += columns.waking_timestamp().count() as u64;
        }
        if bundle.lost_events()? == Some(true) {
            self.marked.insert(bundle.cpu()?.unwrap_or_default());
        }
        Ok(())
    }

    fn add_stats(&mut self, stats: &FtraceStatsDecoder<'_>) -> Result<(), DecodeError> {
        let is_begin = stats.phase()? == Some(Phase::START_OF_TRACE);
        for counts in stats.cpu_stats() {
            let counts = counts?;
            let lost = [
                counts.overrun()?,
                counts.commit_overrun()?,
                counts.dropped_events()?,
            ];
            let lost = lost.into_iter().flatten().fold(0, u64::saturating_add);
            let cpu = counts.cpu()?.unwrap_or_default();
            if self.lost.len() >= NOTED_MAX && !self.lost.contains_key(&cpu) {
                continue;
            }
            let (begin, end) = self.lost.entry(cpu).or_insert((lost, lost));
            match is_begin {
                true => *begin = lost.min(*begin),
                false => *end = lost,
            }
        }
        for event in stats.unknown_ftrace_events() {
            insert(&mut self.unknown, event?);
        }
        for event in stats.failed_ftrace_events() {
            insert(&mut self.failed, event?);
        }
        for status in stats.ftrace_parse_errors() {
            let status = status?;
            insert(
                &mut self.failed,
                &format!("pages that cannot be read: {status:?}"),
            );
        }
        Ok(())
    }

    /// Returns the number of the kernel's events in the trace.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of events that the kernel has overwritten before they were read.
    pub(crate) fn lost(&self) -> u64 {
        let lost = self.lost_by_cpu().map(|(_, lost)| lost);
        lost.fold(0, u64::saturating_add)
    }

    fn lost_by_cpu(&self) -> impl Iterator<Item = (u64, u64)> {
        let lost = self.lost.iter();
        lost.map(|(cpu, (begin, end))| (*cpu, end.saturating_sub(*begin)))
    }

    /// Returns what the trace says about events that are missing, as the end of a sentence; empty if it
    /// says nothing.
    pub(crate) fn why_missing(&self) -> String {
        let reasons = self.failed.iter().map(|reason| printable(reason));
        let reasons: Vec<_> = reasons.take(LISTED_EVENTS_MAX).collect();
        match reasons.is_empty() {
            true => String::new(),
            false => format!(". When it was recorded: {}", reasons.join("; ")),
        }
    }

    /// Returns the lines of a report. There are none for a trace without the kernel's half.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let lost = self.lost();
        if self.events > 0 || lost > 0 {
            let mut line = format!("{}, {lost} lost", plural(self.events, "event"));
            let cpus = self.lost_by_cpu().filter(|(_, lost)| *lost > 0);
            let cpus: Vec<_> = cpus
                .map(|(cpu, lost)| format!("{lost} of CPU {cpu}"))
                .collect();
            if !cpus.is_empty() {
                line += &format!(
                    " ({}): larger buffers, with --kernel-buffer, lose less",
                    cpus.join(", ")
                );
            } else if !self.marked.is_empty() {
                line += "; more were lost, but the trace does not say how many";
            }
            lines.push(line);
        }
        let unknown = self.unknown.iter();
        let unknown =
            unknown.map(|event| format!("{}: this kernel has no such event", printable(event)));
        let failed = self.failed.iter().map(|event| printable(event));
        let mut missing: Vec<_> = failed.chain(unknown).collect();
        let more = missing.len().saturating_sub(LISTED_EVENTS_MAX);
        missing.truncate(LISTED_EVENTS_MAX);
        for event in missing {
            lines.push(format!("not recorded: {event}"));
        }
        if more > 0 {
            lines.push(format!(
                "{} more not recorded",
                plural(more as u64, "event")
            ));
        }
        lines
    }
}

/// Notes a text, if there is room.
fn insert(texts: &mut BTreeSet<String>, text: &str) {
    if texts.len() < NOTED_MAX {
        texts.insert(text.to_owned());
    }
}
