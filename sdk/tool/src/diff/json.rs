//! Prints a comparison as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::percent::of_difference;
use super::read::TraceAccount;
use super::report::{Report, Row, Subject, compared};
use super::statistics::{Compared, Side, candidate_level};

/// Prints a comparison.
pub(super) fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let by_chance = |rows: &[Row]| {
        let rows = compared(rows);
        rows as f64 * candidate_level(rows)
    };
    let common = report.common.as_ref().map(|common| {
        let mut value = json!({
            "change_percent": of_difference(common.difference),
            "verdict": common.verdict.as_str(),
            "counts": report.asked.absolute,
        });
        add_interval(
            &mut value,
            &Compared {
                estimate: common.estimate,
                verdict: common.verdict,
            },
        );
        value
    });
    let value = json!({
        "slower": report.is_alarm,
        "has_losses": report.has_losses(),
        "is_one_trace_per_side": report.is_single(),
        "threshold_percent": report.asked.threshold.map(of_difference),
        "before": traces(report, Side::Before),
        "after": traces(report, Side::After),
        "common": common,
        "names_compared": compared(&report.names),
        "stacks_compared": compared(&report.stacks),
        "names_by_chance": by_chance(&report.names),
        "stacks_by_chance": by_chance(&report.stacks),
        "names": rows(report, &report.names),
        "stacks": rows(report, &report.stacks),
        "spans_left_out": report.tables.left_out,
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}

fn traces(report: &Report<'_>, side: Side) -> Vec<Value> {
    let traces = report.tables.traces.iter().zip(&report.tables.sides);
    let traces = traces.enumerate().filter(|(_, (_, of))| **of == side);
    let factors = report.common.as_ref().map(|common| &common.of_traces);
    traces
        .map(|(index, (trace, _))| {
            let TraceAccount {
                path,
                bytes,
                spans,
                open_spans,
                gaps,
                packets_lost,
                damages,
                early_ends,
                left_out,
            } = trace;
            json!({
                "file": path.to_string_lossy(),
                "bytes": bytes,
                "spans": spans,
                "open_spans": open_spans,
                "common_percent": factors.map(|factors| of_difference(factors[index])),
                "packets_lost": packets_lost,
                "gaps": gaps,
                "damaged_places": damages,
                "early_ends": early_ends.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "spans_left_out": left_out,
            })
        })
        .collect()
}

fn rows(report: &Report<'_>, rows: &[Row]) -> Vec<Value> {
    let text = |name| report.tables.texts.text(name);
    let rows = rows.iter().take(report.top);
    rows.map(|row| {
        let mut value = match &row.subject {
            Subject::Name {
                place,
                category,
                name,
            } => json!({
                "on": place.as_str(),
                "category": text(*category),
                "name": text(*name),
            }),
            Subject::Stack { place, path, .. } => json!({
                "on": place.as_str(),
                "stack": path.iter().map(|name| text(*name)).collect::<Vec<_>>(),
            }),
        };
        value["verdict"] = json!(row.time.verdict.as_str());
        value["change_percent"] = json!(row.time.estimate.map(|it| of_difference(it.difference)));
        add_interval(&mut value, &row.time);
        if let Some(mean) = &row.mean {
            value["mean_verdict"] = json!(mean.verdict.as_str());
            let change = mean.estimate.map(|it| of_difference(it.difference));
            value["mean_change_percent"] = json!(change);
        }
        for (side, times) in [("before", row.before), ("after", row.after)] {
            value[side] = json!({
                "traces": times.traces,
                "calls": times.count,
                "total_ns": times.total_ns,
                "mean_ns": times.mean_ns(),
            });
        }
        value["calls"] = json!(row.calls_change().map_or("equal", |it| it.as_str()));
        value["calls_change_percent"] =
            json!(row.calls.estimate.map(|it| of_difference(it.difference)));
        value
    })
    .collect()
}

/// Adds the interval of 95 % in percent, and the probability of such a slowdown by chance.
fn add_interval(value: &mut Value, compared: &Compared) {
    let interval = compared.estimate.map(|it| it.interval());
    value["low_percent"] = json!(interval.map(|(low, _)| of_difference(low)));
    value["high_percent"] = json!(interval.map(|(_, high)| of_difference(high)));
    value["p_slower"] = json!(compared.estimate.map(|it| it.p_slower()));
}
