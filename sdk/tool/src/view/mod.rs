//! `tracezero view`: writes an HTML page that shows a trace in a browser, without any network.
//!
//! A trace is read into a [`timeline`]. Its begins and ends are paired into events, in rows. The
//! columns of the rows go into the page as compressed text. The scripts in `page/` draw them. If the
//! trace has the kernel's half, what cores and threads did is drawn, too.

mod load; // reads a trace into a timeline
mod window; // the part of a trace that is shown
mod losses; // times in which data was lost
mod event_args; // reads the arguments of events
mod tracks; // describes tracks
mod timeline; // the data of a page
mod strings; // the strings of a page
mod args; // the arguments of a page
mod rows; // pairs begins and ends, and puts events into rows
mod coalesce; // puts tracks of one name on as few lines as possible
mod merge; // merges short pieces of a lane
mod kernel_lanes; // what cores and threads did, from the kernel's half of the trace
mod columns; // encodes numbers
mod encode; // encodes a timeline
mod base64; // encodes bytes as text
mod page; // writes the page

use std::fs;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::error::ToolError;
use crate::input::Input;
use crate::output::{OutputFile, refuse_input, stdout};
use crate::packets::DamageLog;
use crate::units::seconds;

use self::encode::Encoder;
use self::load::Loader;
use self::timeline::{EVENTS_MAX_DEFAULT, Timeline};
use self::window::Window;

/// Writes an HTML page that shows a trace: timeline, search and tables in one file.
///
/// The page is self-contained: a browser shows it from the file, without any network, and the trace
/// stays on the machine. Press `?` in the page for its keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero view app.pftrace -o app.html")]
pub(crate) struct Args {
    /// The trace, or `-` for the standard input
    file: PathBuf,
    /// The page; an existing file is replaced [default: the name of the trace with the ending
    /// .html, unless another kind of file has that name]
    #[arg(short, long, value_name = "PAGE")]
    output: Option<PathBuf>,
    /// Begin of the part to show, in seconds from the first event of the trace
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    from: Option<f64>,
    /// End of the part to show
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    to: Option<f64>,
    /// Maximum number of slices, instants and counter values to show; those that come first in the
    /// file are kept. A million takes about 60 MB of memory while the page is written. The kernel's
    /// half of a trace does not count
    #[arg(long, value_name = "NUMBER", default_value_t = EVENTS_MAX_DEFAULT)]
    max_events: u64,
}

/// Writes the page.
pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let output = output_path(args)?;
    refuse_input(&output, [args.file.as_path()])?;
    if args.output.is_none() {
        refuse_other_files(&output)?;
    }
    let mut damages = DamageLog::new(&args.file);
    let window = window(args, &damages)?;
    let mut timeline = Timeline::new(title(&args.file), 0, args.max_events);
    timeline.notes.extend(window_note(args));
    let loader = Loader::new(timeline, window);
    let loaded = loader.load(Input::open(&args.file)?, &mut damages);
    let timeline = loaded.map_err(|error| damages.read_error(&error))?;
    damages.require_packets(timeline.packets)?;

    let encoder = Encoder::new(timeline);
    let mut out = OutputFile::create(&output)?;
    let written = page::write(&encoder, &mut out);
    let data_letters = written.map_err(|source| out.failed(source))?;
    out.finish()?;
    if !is_standard_stream(&output) {
        let facts = facts(&encoder, data_letters);
        let said = writeln!(stdout(), "{}: {facts}", output.display());
        said.map_err(ToolError::Output)?;
    }
    let left_out = encoder.left_out_text();
    if !left_out.is_empty() {
        eprintln!("{left_out}");
    }
    Ok(damages.finish())
}

/// Describes the content of a page: numbers and sizes.
fn facts(encoder: &Encoder, data_letters: u64) -> String {
    let events = encoder.event_count();
    let size_kb = data_letters as f64 / 1e3;
    let pieces = encoder.piece_count();
    if pieces > 0 {
        return format!("{events} events, {pieces} times on cores and states, in {size_kb:.1} kB");
    }
    let per_event = data_letters as f64 / events.max(1) as f64;
    format!("{events} events in {size_kb:.1} kB, {per_event:.1} bytes per event")
}

fn output_path(args: &Args) -> Result<PathBuf, ToolError> {
    match &args.output {
        Some(output) => Ok(output.clone()),
        None if is_standard_stream(&args.file) => Err(ToolError::Usage(
            "the page of a trace from the standard input has no name; give one with -o PAGE"
                .to_owned(),
        )),
        None => Ok(args.file.with_extension("html")),
    }
}

/// Refuses to replace a file at the default path that is not a page of this command.
fn refuse_other_files(page: &Path) -> Result<(), ToolError> {
    let is_file = fs::metadata(page).is_ok_and(|there| there.is_file());
    // A file that cannot be read was not written by this command.
    if is_file && !page::is_page(page).unwrap_or(false) {
        return Err(ToolError::Usage(format!(
            "{} exists and was not written by this command; name another page with -o PAGE, or name \
             that one to replace it",
            page.display()
        )));
    }
    Ok(())
}

fn title(file: &Path) -> String {
    match file.file_name() {
        Some(name) if !is_standard_stream(file) => name.to_string_lossy().into_owned(),
        _ => "trace".to_owned(),
    }
}

/// Returns the part of the trace to show. Reads the whole file once to find its times.
fn window(args: &Args, damages: &DamageLog) -> Result<Option<Window>, ToolError> {
    if args.from.is_none() && args.to.is_none() {
        return Ok(None);
    }
    if is_standard_stream(&args.file) {
        return Err(ToolError::Usage(
            "--from and --to read the trace twice, which the standard input does not allow; name a \
             file"
                .to_owned(),
        ));
    }
    let range = load::time_range(Input::open(&args.file)?);
    let range = range.map_err(|error| damages.read_error(&error))?;
    let Some((first_ns, last_ns)) = range.map(RangeInclusive::into_inner) else {
        return Ok(None);
    };
    let length_ns = last_ns - first_ns;
    let wrong = |what: String| {
        let length = seconds(length_ns);
        let message = format!("{what}; the events of the trace are from 0 s to {length} s");
        Err(ToolError::Usage(message))
    };
    let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
    let from_ns = args.from.map_or(0, nanoseconds);
    let to_ns = args.to.map_or(u64::MAX, nanoseconds);
    match (args.from, args.to) {
        (Some(from), Some(to)) if from_ns >= to_ns => {
            wrong(format!("--from {from} is not before --to {to}"))
        }
        (None, Some(to)) if to_ns == 0 => wrong(format!("--to {to} is not after the begin")),
        (Some(from), _) if from_ns > length_ns => wrong(format!("--from {from} is after the end")),
        _ => Ok(Some(Window::new(
            first_ns.saturating_add(from_ns),
            first_ns.saturating_add(to_ns),
        ))),
    }
}

fn window_note(args: &Args) -> Option<String> {
    let text = match (args.from, args.to) {
        (None, None) => return None,
        (Some(from), None) => format!("from {from} s on"),
        (None, Some(to)) => format!("up to {to} s"),
        (Some(from), Some(to)) => format!("from {from} s to {to} s"),
    };
    Some(format!(
        "Only a part of the trace is shown: {text}. Times count from its first event."
    ))
}

/// Returns true for `-`, the standard input or output.
fn is_standard_stream(file: &Path) -> bool {
    file == Path::new("-")
}

/// Parses a time that is finite and not negative.
fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Ok(seconds),
        _ => Err("expected a number of seconds, 0 or more".to_owned()),
    }
}
