//! Draws where time goes: nested spans, by self time.

mod stacks; // time by stack

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use inferno::flamegraph::{Options, from_lines};
use tracezero_reader::{EventHead, InTimeOrder, Record, Slices, TraceReader, TrackTable};

use self::stacks::{Drawn, Stacks};
use crate::Outcome;
use crate::error::ToolError;
use crate::input::Input;
use crate::output::{OutputFile, refuse_input};
use crate::packets::DamageLog;
use crate::stacks::NodeId;

/// The maximum number of tracks that an error message lists.
const MAX_NAMED_TRACKS: usize = 20;
/// The maximum size of a name in the error message that lists tracks. Longer names are cut.
const MAX_TITLE_BYTES: usize = 100;

/// Draws a flame graph of the spans
///
/// A span is as wide as the total time spent in it. The part that no span above it covers is its
/// self time. Each thread has its own graph, under its process. With --all-tracks, other tracks of
/// the same name share a graph. Spans that had not ended at the end of the trace are left out.
///
/// By default only spans on threads are drawn, where work is done. Other tracks hold what takes
/// time without a thread, such as futures, which mostly wait: beside them, work would be too narrow
/// to see.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero flamegraph --merged app.pftrace -o app.svg")]
pub(crate) struct Args {
    /// The trace, or - for the standard input
    file: PathBuf,
    /// The file for the picture, or - for the standard output
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    output: PathBuf,
    /// Write text instead: one line per stack, with its frames joined by ';', and nanoseconds
    #[arg(long)]
    folded: bool,
    /// Merge equal stacks of all threads and tracks
    #[arg(long)]
    merged: bool,
    /// Also draw the spans on other tracks
    #[arg(long)]
    all_tracks: bool,
    /// Draw only the thread, track or process with this name, as `tracezero summary` prints it
    #[arg(long, value_name = "NAME", conflicts_with = "all_tracks")]
    track: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    refuse_input(&args.output, [args.file.as_path()])?;
    let mut reader = TraceReader::new(Input::open(&args.file)?);
    let mut damages = DamageLog::new(&args.file);
    let mut order = InTimeOrder::new();
    let mut slices = Slices::<NodeId>::new();
    // A `RefCell`, because both closures below change the stacks.
    let stacks = RefCell::new(Stacks::default());
    let mut add = |event: &EventHead, tracks: &TrackTable| {
        slices.add(
            event,
            |around| {
                let around = around.map(|slice| slice.value);
                stacks.borrow_mut().begin(event, around, tracks)
            },
            |slice| stacks.borrow_mut().end(slice.value, slice.self_ns),
        );
    };
    loop {
        let record = reader.next().map_err(|error| damages.read_error(&error))?;
        match record {
            None => break,
            Some(Record::Event(event)) if event.head.kind.is_slice() => {
                let event = event.head;
                order.add(&event, reader.tracks(), |event| add(event, reader.tracks()));
            }
            Some(Record::Damage(damage)) => damages.report(&damage),
            Some(_) => {}
        }
    }
    order.finish(|event| add(event, reader.tracks()));
    slices.finish(|slice| stacks.borrow_mut().end(slice.value, slice.self_ns));

    damages.require_packets(reader.packets())?;
    let stacks = stacks.into_inner();
    if stacks.left_out() > 0 {
        let count = stacks.left_out();
        eprintln!(
            "{count} spans are counted as their parents: the stacks are too many or too deep"
        );
    }
    let drawn = match &args.track {
        Some(name) => Drawn::TracksCalled(name),
        None if args.all_tracks => Drawn::AllTracks,
        None => Drawn::Threads,
    };
    let folded = stacks.folded(drawn, !args.merged, reader.tracks(), reader.names());
    let lines = folded.lines;
    if folded.left_out > 0 {
        let count = folded.left_out;
        eprintln!("{count} stacks are left out: their names need too much memory");
    }
    if lines.is_empty() {
        return Err(ToolError::Read {
            path: args.file.clone(),
            message: match drawn {
                Drawn::Threads if folded.on_other_tracks > 0 => {
                    "no thread has spans that ended; draw those on other tracks with --all-tracks"
                        .to_owned()
                }
                Drawn::Threads | Drawn::AllTracks => "the trace has no spans that ended".to_owned(),
                Drawn::TracksCalled(name) => {
                    let others = quoted(&folded.other_titles);
                    format!("no track named {name:?} has spans that ended{others}")
                }
            },
        });
    }
    let mut out = OutputFile::create(&args.output)?;
    match args.folded {
        true => lines.iter().try_for_each(|line| writeln!(out, "{line}")),
        false => from_lines(
            &mut options(args, folded.on_other_tracks > 0),
            lines.iter().map(String::as_str),
            &mut out,
        ),
    }
    .map_err(|error| out.failed(error))?;
    out.finish()?;
    Ok(damages.finish())
}

/// Lists the names of tracks, as the end of a message.
fn quoted(titles: &BTreeSet<&str>) -> String {
    let titles = titles.iter().filter(|title| !title.is_empty());
    let named: Vec<String> = titles
        .clone()
        .take(MAX_NAMED_TRACKS)
        .map(|title| format!("{:?}", &title[..title.floor_char_boundary(MAX_TITLE_BYTES)]))
        .collect();
    if named.is_empty() {
        return String::new();
    }
    let more = match titles.count() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("; tracks that have them: {}{more}", named.join(", "))
}

fn options(args: &Args, leaves_tracks_out: bool) -> Options<'static> {
    let mut options = Options::default();
    let file = args.file.file_name().unwrap_or_default();
    options.title = file.to_string_lossy().into_owned();
    options.subtitle = leaves_tracks_out
        .then(|| "spans on threads; --all-tracks draws those on other tracks, too".to_owned());
    options.count_name = "ns".to_owned();
    options.name_type = "Span:".to_owned();
    options
}
