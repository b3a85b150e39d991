//! `tracezero view`: a trace as one page that a browser shows without any network.
//!
//! A trace is read into a [`timeline`], whose begins and ends become events in rows;
//! their columns go into a page as compressed text. The page in `page/` draws them.

mod load; // a trace into a timeline
mod window; // the part of a trace that is shown
mod losses; // where data was lost
mod event_args; // what events carry
mod tracks; // what tracks are
mod timeline; // what a page shows
mod strings; // its strings
mod args; // its arguments
mod rows; // begins and ends to events in rows
mod coalesce; // tracks of one name to as few lines as hold them
mod columns; // numbers as bytes
mod encode; // a timeline as bytes
mod base64; // bytes as text
mod page; // the page around it

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

/// Makes a page of a trace: timeline, search and tables in one HTML file.
///
/// The page needs nothing else: a browser shows it without any network, from a file, and what is in
/// the trace stays on the machine. Press `?` in it for its keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero view app.pftrace -o app.html")]
pub(crate) struct Args {
    /// The trace; `-` is the standard input
    file: PathBuf,
    /// The page; one that is named is replaced, whatever it is [default: beside the trace, with the
    /// ending .html, unless there is a file of that name that is no page of this command]
    #[arg(short, long, value_name = "PAGE")]
    output: Option<PathBuf>,
    /// Where the shown part begins, in seconds from the first event of the trace
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    from: Option<f64>,
    /// Where it ends
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    to: Option<f64>,
    /// Slices, instants and counter values that are shown at most: those that come first in the file.
    /// A million takes about 60 MB while the page is made
    #[arg(long, value_name = "NUMBER", default_value_t = EVENTS_MAX_DEFAULT)]
    max_events: u64,
}

/// Makes the page.
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

/// What is in a page.
fn facts(encoder: &Encoder, data_letters: u64) -> String {
    let events = encoder.event_count();
    let per_event = data_letters as f64 / events.max(1) as f64;
    let size_kb = data_letters as f64 / 1e3;
    format!("{events} events in {size_kb:.1} kB, {per_event:.1} bytes per event")
}

fn output_path(args: &Args) -> Result<PathBuf, ToolError> {
    match &args.output {
        Some(output) => Ok(output.clone()),
        None if is_standard_stream(&args.file) => Err(ToolError::Usage(
            "a trace from the standard input needs a name for its page: -o PAGE".to_owned(),
        )),
        None => Ok(args.file.with_extension("html")),
    }
}

/// A page that nobody has named replaces nothing but pages.
fn refuse_other_files(page: &Path) -> Result<(), ToolError> {
    let is_file = fs::metadata(page).is_ok_and(|there| there.is_file());
    // What cannot be read is none that was made here.
    if is_file && !page::is_page(page).unwrap_or(false) {
        return Err(ToolError::Usage(format!(
            "{} is there and was not made by this command: name another page with -o PAGE, or that \
             one to replace it",
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

/// The part of the trace that was asked for. Finding its times takes a pass over the file.
fn window(args: &Args, damages: &DamageLog) -> Result<Option<Window>, ToolError> {
    if args.from.is_none() && args.to.is_none() {
        return Ok(None);
    }
    if is_standard_stream(&args.file) {
        return Err(ToolError::Usage(
            "--from and --to read the trace twice, which the standard input does not allow: name a \
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
        let message = format!("{what}: the events of the trace are from 0 s to {length} s");
        Err(ToolError::Usage(message))
    };
    let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
    let from_ns = args.from.map_or(0, nanoseconds);
    let to_ns = args.to.map_or(u64::MAX, nanoseconds);
    match (args.from, args.to) {
        (Some(from), Some(to)) if from_ns >= to_ns => {
            wrong(format!("--from {from} is not before --to {to}"))
        }
        (None, Some(to)) if to_ns == 0 => wrong(format!("nothing is before --to {to}")),
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

/// `-`, which is the standard input or output.
fn is_standard_stream(file: &Path) -> bool {
    file == Path::new("-")
}

/// A time that is a number, and not before the trace.
fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Ok(seconds),
        _ => Err("a number of seconds, 0 or more".to_owned()),
    }
}
