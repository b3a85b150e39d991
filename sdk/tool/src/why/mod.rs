//! Tells what a span waited for.

mod causes; // what threads waited for, and who ended it
mod instances; // finds the spans that are asked for
mod json; // prints the answer as JSON
mod similar; // finds names that are nearly the one asked for
mod text; // prints the answer as text

use std::io::Write;
use std::path::PathBuf;

use tracezero_reader::kernel::KernelEvents;
use tracezero_reader::{InTimeOrder, Record, Slice, Slices, TraceReader};

use self::causes::{Breakdown, Tables};
use self::instances::{Instance, Instances};
use crate::Outcome;
use crate::error::ToolError;
use crate::input::Input;
use crate::kernel_account::KernelAccount;
use crate::output::stdout;
use crate::packets::DamageLog;
use crate::thread_states::{HOW_TO_RECORD, SpanLog, Threads, missing_switches};
use crate::units::seconds;

/// Tells what a span waited for
///
/// Prints how the time of all spans of a name divides into running, waiting for a core, for a lock,
/// for a disk, and sleeping, and then the causes: the system call that a thread slept in, which thread
/// woke it, inside of which span, and which threads had the core that it waited for. Then the same of
/// the longest span alone.
///
/// The trace must have the kernel's half: scheduling events, and system calls for the reasons of
/// waits. Where the kernel lost events, the time is unknown. A lock is known by the word in memory
/// that its waiters sleep on (futex); its holder is the thread that woke them. Condition variables and
/// parked threads wait in the same way.
///
/// The span of a future is on a track of its own: its time is that of its polls on threads, and the
/// waits between them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero why checkout app.pftrace")]
pub(crate) struct Args {
    /// The name of the span
    span: String,
    /// The trace, or - for the standard input
    file: PathBuf,
    /// Only the span that is open at this time, in seconds from the first event of the trace
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    at: Option<f64>,
    /// Maximum number of causes, of threads that woke, and of threads that had the core; 0 for all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print JSON, with durations in nanoseconds
    #[arg(long)]
    json: bool,
}

/// What is asked for, and all that is needed to answer.
#[derive(Debug)]
struct Answer<'t> {
    span: &'t str,
    tables: &'t Tables<'t>,
    instances: &'t [Instance<'t>],
    /// The time of the first event of the trace.
    first_ns: u64,
    /// The sum of all spans.
    all: Breakdown,
    /// The longest span, if there are several.
    longest: Option<(&'t Instance<'t>, Breakdown)>,
    top: usize,
    /// What a reader of the answer should know.
    notes: Vec<String>,
}

/// Reads a trace of which both halves are wanted.
#[derive(Debug, Default)]
struct Halves {
    log: SpanLog,
    events: KernelEvents,
    account: KernelAccount,
    first_ns: Option<u64>,
    last_ns: u64,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let mut reader = TraceReader::new(Input::open(&args.file)?);
    let mut damages = DamageLog::new(&args.file);
    let halves = Halves::read(&mut reader, &mut damages)?;
    damages.require_packets(reader.packets())?;
    let timelines = halves.events.finish();
    let (tracks, names) = (reader.tracks(), reader.names());
    let failed = |message| ToolError::Read {
        path: args.file.clone(),
        message,
    };
    let first_ns = halves.first_ns.unwrap_or_default();
    let found = Instances::find(&args.span, &halves.log, tracks, names);
    let mut instances = found.map_err(failed)?;
    if timelines.counts().switches == 0 {
        return Err(failed(format!(
            "the trace has no scheduling events, so it does not tell what threads waited for; {HOW_TO_RECORD}{}",
            halves.account.why_missing()
        )));
    }
    if let Some(seconds) = args.at {
        let at_ns = first_ns.saturating_add((seconds * 1e9) as u64);
        instances.retain_at(at_ns);
    }
    let instances = instances.all;
    if instances.is_empty() {
        let seconds = args.at.unwrap_or_default();
        let message = format!("no span named {:?} is open at {seconds} s", args.span);
        return Err(failed(message));
    }

    let threads = Threads::new(&timelines, &halves.log, tracks, names);
    let tables = Tables {
        log: &halves.log,
        timelines: &timelines,
        threads: &threads,
        names,
    };
    let mut all = Breakdown::default();
    for instance in &instances {
        all.add(instance, &tables);
    }
    let longest = instances.iter().max_by_key(|it| it.span.duration_ns());
    let longest = longest.filter(|_| instances.len() > 1).map(|longest| {
        let mut breakdown = Breakdown::default();
        breakdown.add(longest, &tables);
        (longest, breakdown)
    });
    let answer = Answer {
        span: &args.span,
        tables: &tables,
        instances: &instances,
        first_ns,
        notes: notes(&all, &tables, &instances, first_ns),
        all,
        longest,
        top: match args.top {
            0 => usize::MAX,
            top => top,
        },
    };
    let mut out = stdout();
    match args.json {
        true => json::print(&answer, &mut out),
        false => text::print(&answer, &mut out),
    }
    .and_then(|()| out.flush())
    .map_err(ToolError::Output)?;
    Ok(damages.finish())
}

impl Halves {
    fn read(reader: &mut TraceReader<Input>, damages: &mut DamageLog) -> Result<Self, ToolError> {
        let mut halves = Self::default();
        let mut order = InTimeOrder::new();
        let mut slices = Slices::<()>::new();
        loop {
            let record = reader.next().map_err(|error| damages.read_error(&error))?;
            match record {
                None => break,
                Some(Record::Event(event)) => {
                    halves.log.note(&event);
                    let event = event.head;
                    let first_ns = halves.first_ns.get_or_insert(event.timestamp_ns);
                    *first_ns = event.timestamp_ns.min(*first_ns);
                    halves.last_ns = event.timestamp_ns.max(halves.last_ns);
                    if event.kind.is_slice() {
                        order.add(&event, reader.tracks(), |event| {
                            slices.add(event, |_| (), |slice| halves.log.add(&slice));
                        });
                    }
                }
                Some(Record::Packet(packet)) => {
                    // The command `check` reports malformed packets.
                    let _ = halves.account.add(packet.packet.bytes());
                    halves.events.add(reader);
                }
                Some(Record::Damage(damage)) => damages.report(&damage),
                Some(_) => {}
            }
        }
        let mut add = |slice: Slice| halves.log.add(&slice);
        order.finish(|event| slices.add(event, |_| (), &mut add));
        slices.finish(&mut add);
        for open in slices.open() {
            halves.log.add_open(&open.begin, halves.last_ns);
        }
        halves.log.finish();
        Ok(halves)
    }
}

/// Returns what a reader of the answer should know about the trace.
fn notes(
    all: &Breakdown,
    tables: &Tables<'_>,
    instances: &[Instance<'_>],
    first_ns: u64,
) -> Vec<String> {
    let mut notes = Vec::new();
    let recorded = tables.timelines.range();
    let since = |time_ns: u64| seconds(time_ns.saturating_sub(first_ns));
    if instances.iter().any(|it| it.span.begin_ns < recorded.start) {
        let start = since(recorded.start);
        notes.push(format!("the trace has the kernel only from {start} s on"));
    }
    if instances.iter().any(|it| it.span.end_ns > recorded.end) {
        let end = since(recorded.end);
        notes.push(format!("the trace has the kernel only up to {end} s"));
    }
    let counts = tables.timelines.counts();
    if counts.calls == 0 {
        notes.push(format!(
            "the trace has no system calls, so it does not tell what sleeping threads wait for; {HOW_TO_RECORD}"
        ));
    }
    if counts.wakings == 0 {
        notes.push(
            "the trace has no wake-ups: threads that could go on count as waiting".to_owned(),
        );
    }
    for track in &all.tracks_without_thread {
        let name = tables.threads.track_name(*track).of_process();
        notes.push(format!(
            "the kernel has no events of {name}; if its process is in a pid namespace of its own, record with the data source linux.process_stats"
        ));
    }
    if counts.missing_switches > 0 {
        notes.push(missing_switches(counts.missing_switches));
    }
    if tables.log.left_out > 0 {
        let count = tables.log.left_out;
        notes.push(format!("{count} spans are left out for lack of room"));
    }
    if counts.left_out > 0 {
        let count = counts.left_out;
        notes.push(format!(
            "{count} events of the kernel are left out for lack of room"
        ));
    }
    notes
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds, such as 2.5".to_owned()),
    }
}
