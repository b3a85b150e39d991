//! The rows that the tables of a lake must have for a trace.

mod losses; // what was lost, and the statistics of the service
mod slices; // slices, instants, their arguments and flows
mod counters; // values of counters
mod listing; // the processes and threads that a trace lists
mod sched; // the kernel's events about cores and threads
mod kernel; // when threads get cores, lose them and are woken
mod states; // the states of threads
mod threads; // processes and threads

use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_packet::trace_packet::Data;
use serde_json::{Value as Json, json};

use self::counters::Counters;
use self::kernel::KernelThreads;
use self::listing::Listing;
use self::sched::KernelEvents;
use self::slices::Slices;
use self::threads::ThreadRows;
use crate::{Counts, ExtraSchema, examiner};

/// Returns the results of all queries of `engines/compare.py` on the tables of a trace, as a JSON
/// object: for each query a list of rows. Floating-point numbers are given by their bits.
///
/// Results that need the kernel's events are `null` if these are on a clock of their own, or of a
/// kernel before Linux 5, whose states have other numbers.
///
/// A trace with problems is counted as far as it can be read. Compressed packets are not looked
/// into.
#[must_use]
pub fn tables(trace_bytes: &[u8], extra: &ExtraSchema) -> Json {
    let (verdict, descriptors) = examiner::read(trace_bytes, extra);
    let counts = Counts::of_verdict(&verdict, trace_bytes);
    let counters = Counters::of(&verdict, &descriptors);
    let slices = Slices::of(&verdict);
    let accounts = losses::accounts(&verdict);
    let lost: u64 = accounts.values().sum();
    let totals = [
        counts.packets,
        counts.events,
        counts.bytes,
        Some(lost),
        Some(slices.open()),
    ];
    let [processes, threads, states, cores] = match kernel_events(&verdict.packets) {
        None => [const { Json::Null }; 4],
        Some(events) => {
            let listing = Listing::of(&verdict.packets);
            let kernel = KernelThreads::of(&events, &listing);
            let threads = ThreadRows::new(&descriptors, &listing, &kernel);
            [
                threads.processes(),
                threads.threads(),
                kernel.states(threads.kernel_tids()),
                kernel.cores(),
            ]
        }
    };
    json!({
        "trace": [totals],
        "slices": slices.by_name(),
        "instants": slices.instants_by_name(),
        "slices of threads": slices.by_thread(),
        "args": slices.args(),
        "flows": slices.flows(),
        "counters": counters.integers(),
        "real counters": counters.reals(),
        "processes": processes,
        "threads": threads,
        "thread states": states,
        "cores": cores,
        "accounts": losses::rows(accounts),
        "gaps": losses::gaps(&verdict),
        "stats": losses::stats(&verdict),
    })
}

/// Returns the kernel's events; none if the trace has none. `None` if the judge does not know their
/// clock, or what they mean.
fn kernel_events(packets: &[TracePacket]) -> Option<KernelEvents> {
    let release = packets.iter().find_map(|packet| match &packet.data {
        Some(Data::SystemInfo(info)) => Some(info.utsname.release()),
        _ => None,
    });
    let major = release.and_then(|release| release.split('.').next()?.parse::<u32>().ok());
    let is_known = major >= Some(5);
    let events = KernelEvents::of(packets)?;
    (is_known || events.events.is_empty()).then_some(events)
}
