//! Prints an answer as JSON: names as in the text, durations in nanoseconds.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tracezero_reader::kernel::{Activity, CpuActivity, Waker};

use super::Answer;
use super::causes::{Breakdown, Cause, Place, Total};
use super::instances::Instance;
use crate::thread_states::activity_key;

/// Prints an answer.
pub(super) fn print(answer: &Answer<'_>, out: &mut impl Write) -> io::Result<()> {
    let longest = answer.longest.as_ref().map(|(longest, breakdown)| {
        json!({
            "span": instance(answer, longest),
            "breakdown": breakdown_of(answer, breakdown),
        })
    });
    let spans = answer.instances.iter().take(answer.top);
    let value = json!({
        "name": answer.span,
        "count": answer.instances.len(),
        "spans": spans.map(|it| instance(answer, it)).collect::<Vec<_>>(),
        "threads": threads(answer),
        "all": breakdown_of(answer, &answer.all),
        "longest": longest,
        "notes": answer.notes,
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}

fn instance(answer: &Answer<'_>, instance: &Instance<'_>) -> Value {
    let name = answer.tables.threads.track_name(instance.span.track);
    json!({
        "process": name.process,
        "track": name.thread,
        "since_ns": instance.span.begin_ns.saturating_sub(answer.first_ns),
        "duration_ns": instance.span.duration_ns(),
        "is_open": instance.span.is_open,
        "is_future": instance.is_future,
    })
}

fn threads(answer: &Answer<'_>) -> Vec<Value> {
    let mut rows: Vec<_> = answer.all.threads.iter().collect();
    rows.sort_by_key(|(track, (_, time_ns))| (std::cmp::Reverse(*time_ns), **track));
    let rows = rows.into_iter().take(answer.top);
    rows.map(|(track, (count, time_ns))| {
        let name = answer.tables.threads.track_name(*track);
        json!({
            "process": name.process,
            "thread": name.thread,
            "count": count,
            "time_ns": time_ns,
        })
    })
    .collect()
}

fn breakdown_of(answer: &Answer<'_>, breakdown: &Breakdown) -> Value {
    let states: Map<String, Value> = Activity::ALL
        .iter()
        .map(|it| {
            (
                activity_key(*it).to_owned(),
                json!(breakdown.activities.of(*it)),
            )
        })
        .chain([("not_polled".to_owned(), json!(breakdown.not_polled_ns))])
        .collect();
    let causes = breakdown.causes().into_iter().take(answer.top);
    json!({
        "total_ns": breakdown.total_ns(),
        "states_ns": states,
        "polls": breakdown.polls,
        "lost_events": breakdown.has_lost().then(|| breakdown.lost_events(answer.tables.timelines)),
        "causes": causes.map(|(it, total)| cause(answer, it, total)).collect::<Vec<_>>(),
    })
}

fn cause(answer: &Answer<'_>, cause: Cause, total: &Total) -> Value {
    let call = match cause {
        Cause::Blocked(Place::Call(name)) | Cause::Sleeping(Place::Call(name)) => json!(name),
        Cause::Blocked(Place::CallNumber(number)) | Cause::Sleeping(Place::CallNumber(number)) => {
            json!(number)
        }
        _ => Value::Null,
    };
    let futex = match cause {
        Cause::Lock { address, .. } => json!(format!("{address:#x}")),
        _ => Value::Null,
    };
    let wakers = total.wakers().into_iter().take(answer.top);
    let wakers = wakers.map(|(waker, span, count, time_ns)| {
        let name = match waker {
            Waker::Thread(thread) => answer.tables.threads.name(thread),
            _ => Default::default(),
        };
        json!({
            "is_interrupt": waker == Waker::Interrupt,
            "process": name.process,
            "thread": name.thread,
            "span": answer.tables.names.text(span),
            "count": count,
            "waited_ns": time_ns,
        })
    });
    let meanwhile = total.meanwhile().into_iter().take(answer.top);
    let meanwhile = meanwhile.map(|(activity, time_ns)| {
        let (kind, name) = match activity {
            CpuActivity::Thread(thread) => ("thread", answer.tables.threads.name(thread)),
            CpuActivity::Idle => ("idle", Default::default()),
            _ => ("unknown", Default::default()),
        };
        json!({
            "core": kind,
            "process": name.process,
            "thread": name.thread,
            "time_ns": time_ns,
        })
    });
    json!({
        "kind": cause.key(),
        "text": cause.to_string(),
        "call": call,
        "futex": futex,
        "time_ns": total.time_ns,
        "count": total.count,
        "woken_by": wakers.collect::<Vec<_>>(),
        "meanwhile": meanwhile.collect::<Vec<_>>(),
    })
}
