//! What the recorder says of itself: `FtraceStats`.

use std::error::Error;

use protozero::Writer as _;
use tracezero::TraceContext;
use tracezero_kernel::protos::ftrace_stats::Phase;
use tracezero_kernel::protos::{FtraceParseStatus, FtraceStats, KernelPacket};

use super::Ftrace;
use super::cpu_stats::CpuStats;
use super::symbols::KernelSymbols;
use crate::instance_key::InstanceKey;

/// What the setup of an instance could not do.
#[derive(Debug, Default)]
pub(super) struct SetupReport {
    /// Names of events that this kernel does not have.
    pub(super) unknown: Vec<String>,
    /// Events and settings that failed, each with the reason.
    pub(super) failed: Vec<String>,
}

/// The counts of a moment.
#[derive(Debug)]
pub(super) struct Counts<'c> {
    pub(super) phase: Phase,
    pub(super) cpus: &'c [(u32, CpuStats)],
    pub(super) symbols: Option<&'c KernelSymbols>,
    /// Statuses of pages that could not be read.
    pub(super) page_errors: &'c [FtraceParseStatus],
    /// True if records were left out that do not have the fields of their format.
    pub(super) has_invalid_records: bool,
    /// The size of each CPU's buffer.
    pub(super) buffer_pages: u32,
}

/// Writes the counts into the session of `cx`.
pub(super) fn write(cx: &mut TraceContext<'_, Ftrace>, counts: &Counts<'_>, report: &SetupReport) {
    write_packet(cx, |stats| {
        stats.set_phase(counts.phase);
        for (cpu, counts) in counts.cpus {
            stats.add_cpu_stats(|message| counts.write(*cpu, message));
        }
        if let Some(symbols) = counts.symbols {
            stats.set_kernel_symbols_parsed(u32::try_from(symbols.len()).unwrap_or(u32::MAX));
            let kib = u32::try_from(symbols.size_bytes() >> 10).unwrap_or(u32::MAX);
            stats.set_kernel_symbols_mem_kb(kib);
        }
        for status in counts.page_errors {
            stats.add_ftrace_parse_errors(*status);
        }
        stats.set_cpu_buffer_size_pages(counts.buffer_pages);
        if counts.has_invalid_records {
            stats.add_failed_ftrace_events("records without the fields of their format");
        }
        write_report(stats, report);
    });
}

/// Writes why nothing of the kernel is recorded.
pub(super) fn write_failure(key: InstanceKey, error: &dyn Error) {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message += &format!(": {cause}");
        source = cause.source();
    }
    let report = SetupReport {
        unknown: Vec::new(),
        failed: vec![message],
    };
    Ftrace::with_instance(key, |cx| {
        write_packet(cx, |stats| {
            stats.set_phase(Phase::START_OF_TRACE);
            write_report(stats, &report);
        });
    });
}

fn write_report(stats: &mut FtraceStats<'_>, report: &SetupReport) {
    for event in &report.unknown {
        stats.add_unknown_ftrace_events(event);
    }
    for event in &report.failed {
        stats.add_failed_ftrace_events(event);
    }
}

fn write_packet(cx: &mut TraceContext<'_, Ftrace>, write: impl FnOnce(&mut FtraceStats<'_>)) {
    let now_ns = cx.now_ns();
    cx.packet(|packet| {
        packet.set_timestamp(now_ns);
        let message = packet.as_message_mut();
        let message = message.begin_nested::<{ KernelPacket::FTRACE_STATS_FIELD_NUMBER }>();
        write(&mut FtraceStats::from_message(message));
    });
}
