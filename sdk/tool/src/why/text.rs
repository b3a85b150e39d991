//! Prints an answer as text.

use std::io::{self, Write};

use tracezero_reader::NameId;
use tracezero_reader::kernel::{Activity, CpuActivity, Waker};

use super::Answer;
use super::causes::{Breakdown, Cause, Total};
use super::instances::Instance;
use crate::table::{Table, printable};
use crate::thread_states::{activity_label, percent, shares};
use crate::units::{duration, plural, seconds};

/// Prints an answer.
pub(super) fn print(answer: &Answer<'_>, out: &mut impl Write) -> io::Result<()> {
    print_head(answer, out)?;
    print_breakdown(answer, &answer.all, out)?;
    if let Some((longest, breakdown)) = &answer.longest {
        writeln!(out, "\nthe longest: {}", printable(&place(answer, longest)))?;
        print_breakdown(answer, breakdown, out)?;
    }
    for note in &answer.notes {
        writeln!(out, "\nnote: {}", printable(note))?;
    }
    Ok(())
}

fn print_head(answer: &Answer<'_>, out: &mut impl Write) -> io::Result<()> {
    let name = printable(answer.span);
    if let [only] = answer.instances {
        return writeln!(out, "{name}: {}", printable(&place(answer, only)));
    }
    let count = answer.instances.len() as u64;
    let threads = plural(answer.all.threads.len() as u64, "thread");
    let total = duration(answer.all.total_ns());
    writeln!(
        out,
        "{name}: {} on {threads}, {total}",
        plural(count, "span")
    )?;
    if answer.all.threads.len() > 1 {
        print_threads(answer, out)?;
    }
    Ok(())
}

/// Says when and where a span was.
fn place(answer: &Answer<'_>, instance: &Instance<'_>) -> String {
    let span = instance.span;
    let since = seconds(span.begin_ns.saturating_sub(answer.first_ns));
    let lasted = match span.is_open {
        true => "not ended after",
        false => "took",
    };
    let duration = duration(span.duration_ns());
    if instance.is_future {
        let polls = plural(instance.parts.len() as u64, "poll");
        return format!("{lasted} {duration} from {since} s on, in {polls}");
    }
    let name = answer.tables.threads.track_name(span.track);
    format!(
        "{lasted} {duration} from {since} s on, by {}",
        name.of_process()
    )
}

fn print_threads(answer: &Answer<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut rows: Vec<_> = answer.all.threads.iter().collect();
    rows.sort_by_key(|(track, (_, time_ns))| (std::cmp::Reverse(*time_ns), **track));
    let titles = match answer.all.polls {
        0 => ["spans", "time"],
        _ => ["spans or polls", "time"],
    };
    let mut table = Table::new(&["process", "thread"], &titles);
    for (track, (count, time_ns)) in rows.iter().take(answer.top) {
        let name = answer.tables.threads.track_name(**track);
        table.row([
            name.process,
            name.thread,
            count.to_string(),
            duration(*time_ns),
        ]);
    }
    writeln!(out)?;
    table.print(out)?;
    print_more(rows.len(), answer.top, "  ", out)
}

fn print_breakdown(
    answer: &Answer<'_>,
    breakdown: &Breakdown,
    out: &mut impl Write,
) -> io::Result<()> {
    let total_ns = breakdown.total_ns();
    let activities = Activity::ALL.map(|activity| {
        let label = match activity {
            Activity::Unknown if breakdown.has_lost() => unknown_label(answer, breakdown),
            _ => activity_label(activity).to_owned(),
        };
        (label, breakdown.activities.of(activity))
    });
    let not_polled = ("not polled".to_owned(), breakdown.not_polled_ns);
    let rows: Vec<_> = activities.into_iter().chain([not_polled]).collect();
    let times: Vec<u64> = rows.iter().map(|(_, time_ns)| *time_ns).collect();
    let mut table = Table::new(&["state"], &["time", "share"]);
    for ((label, time_ns), share) in rows.into_iter().zip(shares(&times)) {
        if time_ns > 0 {
            table.row([label, duration(time_ns), percent(share)]);
        }
    }
    writeln!(out)?;
    table.print(out)?;
    let causes = breakdown.causes();
    if causes.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for (cause, total) in causes.iter().take(answer.top) {
        print_cause(answer, *cause, total, total_ns, out)?;
    }
    print_more(causes.len(), answer.top, "  ", out)
}

fn unknown_label(answer: &Answer<'_>, breakdown: &Breakdown) -> String {
    match breakdown.lost_events(answer.tables.timelines) {
        0 => "unknown (events are missing)".to_owned(),
        lost => format!("unknown (the kernel lost {})", plural(lost, "event")),
    }
}

fn print_cause(
    answer: &Answer<'_>,
    cause: Cause,
    total: &Total,
    total_ns: u64,
    out: &mut impl Write,
) -> io::Result<()> {
    let time = duration(total.time_ns);
    let share = part_of(total.time_ns, total_ns);
    let times = match total.count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    writeln!(out, "  {cause}: {time} ({share}), {times}")?;
    if matches!(cause, Cause::Core | Cause::Yielded) {
        return print_meanwhile(answer, total, out);
    }
    let wakers = total.wakers();
    for (waker, span, count, time_ns) in wakers.iter().take(answer.top) {
        let times = match count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        let by = waker_name(answer, *waker, *span);
        let after = duration(*time_ns);
        writeln!(
            out,
            "    woken {times} by {}, after {after}",
            printable(&by)
        )?;
    }
    print_more(wakers.len(), answer.top, "    ", out)
}

fn waker_name(answer: &Answer<'_>, waker: Waker, span: NameId) -> String {
    let Waker::Thread(thread) = waker else {
        return "an interrupt".to_owned();
    };
    let name = answer.tables.threads.name(thread);
    match answer.tables.names.text(span) {
        "" => name.of_process(),
        span => format!("{} inside of {span:?}", name.thread),
    }
}

fn print_meanwhile(answer: &Answer<'_>, total: &Total, out: &mut impl Write) -> io::Result<()> {
    let rows = total.meanwhile();
    let all_ns = rows.iter().map(|(_, time_ns)| time_ns).sum();
    for (activity, time_ns) in rows.iter().take(answer.top) {
        let share = part_of(*time_ns, all_ns);
        let what = match activity {
            CpuActivity::Thread(thread) => {
                format!("ran {}", answer.tables.threads.name(*thread).of_process())
            }
            CpuActivity::Idle => "was idle: it took this long to wake up".to_owned(),
            _ => "did what the trace does not tell".to_owned(),
        };
        writeln!(out, "    {share} of it, the core {}", printable(&what))?;
    }
    print_more(rows.len(), answer.top, "    ", out)
}

fn print_more(rows: usize, top: usize, indent: &str, out: &mut impl Write) -> io::Result<()> {
    match rows.saturating_sub(top) {
        0 => Ok(()),
        more => writeln!(out, "{indent}and {more} more: --top 0 shows all"),
    }
}

fn part_of(part_ns: u64, total_ns: u64) -> String {
    let rest = total_ns.saturating_sub(part_ns);
    percent(shares(&[part_ns, rest])[0])
}
