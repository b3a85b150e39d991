//! What the tables of a lake must have of a trace.

mod losses; // what was lost, and the statistics of the service
mod slices; // slices, instants, their arguments and flows
mod tracks; // processes, threads and counters

use perfetto_protos::trace_packet::TracePacket;
use serde_json::{Value as Json, json};

use self::slices::Slices;
use self::tracks::TrackRows;
use crate::{Counts, ExtraSchema, examiner};

/// Returns the results of all queries of `engines/compare.py` on the tables of a trace, as a JSON
/// object: for each query a list of rows. Floating-point numbers are given by their bits.
///
/// Processes and threads are `null` if the trace has the kernel's half, which names further ones.
///
/// A trace with problems is counted as far as it can be read. Compressed packets are not looked
/// into.
#[must_use]
pub fn tables(trace_bytes: &[u8], extra: &ExtraSchema) -> Json {
    let (verdict, descriptors) = examiner::read(trace_bytes, extra);
    let counts = Counts::of_verdict(&verdict, trace_bytes);
    let tracks = TrackRows::new(&descriptors, &verdict.packets);
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
    let counters = tracks.counters(&verdict);
    let has_kernel = verdict.packets.iter().any(TracePacket::has_ftrace_events);
    let known = |rows: Json| if has_kernel { Json::Null } else { rows };
    json!({
        "trace": [totals],
        "slices": slices.by_name(),
        "instants": slices.instants_by_name(),
        "slices of threads": slices.by_thread(),
        "args": slices.args(),
        "flows": slices.flows(),
        "counters": counters.integers(),
        "real counters": counters.reals(),
        "processes": known(tracks.processes()),
        "threads": known(tracks.threads()),
        "accounts": losses::rows(accounts),
        "gaps": losses::gaps(&verdict),
        "stats": losses::stats(&verdict),
    })
}
