//! Counts the spans in a file, with decoders that are not ours.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use rivals::perfetto_trace::Spans;

use crate::sdks::{SPAN, Sdk};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Returns the number of spans in the file that a reader can show, with begin and end.
pub fn spans_in(sdk: Sdk, file: &Path) -> Result<u64> {
    match sdk {
        Sdk::Tracezero | Sdk::Perfetto | Sdk::PerfettoLarge => perfetto(file),
        Sdk::TracingChrome => lines(file, |line| line.contains("\"ph\":\"E\"")),
        Sdk::Fastrace => lines(file, |line| line.starts_with("span ")),
        Sdk::Dial9 => dial9(file),
    }
}

/// Counts the spans of a Perfetto trace that can be decoded.
fn perfetto(file: &Path) -> Result<u64> {
    let spans = Spans::of_file(file)?;
    if spans.undecodable > 0 {
        eprintln!("{} events in the file cannot be decoded", spans.undecodable);
    }
    Ok(spans.decodable_begins.min(spans.decodable_ends))
}

fn lines(file: &Path, is_span: impl Fn(&str) -> bool) -> Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(file)?);
    let mut line = String::new();
    let mut spans = 0;
    while file.read_line(&mut line)? > 0 {
        spans += u64::from(is_span(&line));
        line.clear();
    }
    Ok(spans)
}

/// Counts the spans with dial9's own decoder, the only one for the format.
fn dial9(file: &Path) -> Result<u64> {
    let bytes = fs::read(file)?;
    let mut decoder = dial9::format::Decoder::new(&bytes).ok_or("not a trace of dial9")?;
    let mut spans = 0;
    decoder
        .for_each_event(|event| spans += u64::from(event.name == SPAN))
        .map_err(|error| error.to_string())?;
    Ok(spans)
}
