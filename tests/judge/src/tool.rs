//! Runs each subcommand of the command `tracezero` that counts, as a process, and reads its counts.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::ZlibDecoder;
use serde_json::Value;
use tracezero::protos::TracePacket;
use tracezero::reader::SkipReason;

use crate::Counts;

/// The fields of packets that do not count as data: the service's own, and those that other packets
/// are read with.
const NO_DATA: [u32; 17] = [
    TracePacket::CLOCK_SNAPSHOT_FIELD_NUMBER,
    TracePacket::TRACK_DESCRIPTOR_FIELD_NUMBER,
    TracePacket::TRACE_CONFIG_FIELD_NUMBER,
    TracePacket::TRACE_ATTRIBUTES_FIELD_NUMBER,
    TracePacket::TRACE_STATS_FIELD_NUMBER,
    TracePacket::SYNCHRONIZATION_MARKER_FIELD_NUMBER,
    TracePacket::SYSTEM_INFO_FIELD_NUMBER,
    TracePacket::TRIGGER_FIELD_NUMBER,
    TracePacket::SERVICE_EVENT_FIELD_NUMBER,
    TracePacket::EXTENSION_DESCRIPTOR_FIELD_NUMBER,
    TracePacket::TRACE_UUID_FIELD_NUMBER,
    TracePacket::CLONE_SNAPSHOT_TRIGGER_FIELD_NUMBER,
    TracePacket::TRACE_PROVENANCE_FIELD_NUMBER,
    TracePacket::PROTOVMS_FIELD_NUMBER,
    TracePacket::CONCURRENT_SESSION_EVENT_FIELD_NUMBER,
    SEQUENCE_ACCOUNTS,
    RECORDING_BOUNDARY,
];
/// Field numbers of the SDK's own extensions of packets.
const SEQUENCE_ACCOUNTS: u32 = 1990;
const RECORDING_BOUNDARY: u32 = 1991;

/// The command `tracezero`.
#[derive(Debug, Clone)]
pub struct Tool {
    binary: PathBuf,
}

impl Tool {
    /// Creates the command from the path of its executable.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
        }
    }

    /// Returns the path of the executable.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the counts of each subcommand that counts.
    ///
    /// `extra_values` is the number of counter values that were written along with other events: a
    /// page of `tracezero view` does not distinguish them from counter events.
    ///
    /// # Errors
    ///
    /// If the command does not run, or prints something unexpected.
    pub fn counts(
        &self,
        trace: &Path,
        extra_values: u64,
    ) -> io::Result<[(&'static str, Counts); 3]> {
        Ok([
            ("summary", self.summary(trace)?),
            ("check", self.check(trace)?),
            ("view", self.view(trace, extra_values)?),
        ])
    }

    /// Runs the command with `args`. Returns its standard output.
    ///
    /// # Errors
    ///
    /// If the command cannot be started, or fails. It is no error if the command reports problems
    /// of the trace (exit code 1).
    pub fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> io::Result<Vec<u8>> {
        let output = Command::new(&self.binary).args(args).output()?;
        match output.status.code() {
            Some(0 | 1) => Ok(output.stdout),
            _ => Err(io::Error::other(format!(
                "tracezero {:?}: {}",
                args.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    fn summary(&self, trace: &Path) -> io::Result<Counts> {
        let json = self.run(&words(&["summary", "--json", "--top", "0"], trace))?;
        let summary: Value = serde_json::from_slice(&json)?;
        let data_packets = summary["other_packets"].as_array().map(|kinds| {
            let is_data = |kind: &&Value| {
                let field = kind["field"].as_u64();
                !NO_DATA.iter().any(|other| field == Some((*other).into()))
            };
            let data = kinds.iter().filter(is_data);
            data.filter_map(|kind| kind["count"].as_u64()).sum()
        });
        let undecodable = &summary["packets_skipped"][SkipReason::NeedsState.to_string()];
        Ok(Counts {
            bytes: said(summary["bytes"].as_u64(), "bytes")?,
            packets: said(summary["packets"].as_u64(), "packets")?,
            events: said(summary["events"].as_u64(), "events")?,
            data_packets: said(data_packets, "other_packets")?,
            undecodable: Some(undecodable.as_u64().unwrap_or(0)),
            extra_values: None,
        })
    }

    /// Parses the last line: `app.pftrace: 8486 packets, 7871 events, 6 sequences: 0 errors, 0
    /// notes`.
    fn check(&self, trace: &Path) -> io::Result<Counts> {
        let text = String::from_utf8_lossy(&self.run(&words(&["check"], trace))?).into_owned();
        let last = text.lines().last().unwrap_or_default();
        let head = last.rsplit(": ").nth(1).unwrap_or_default();
        let count = |place, name: &str| {
            let part: &str = head.split(", ").nth(place)?;
            let (count, what) = part.split_once(' ')?;
            what.starts_with(name).then(|| count.parse().ok())?
        };
        Ok(Counts {
            packets: said(count(0, "packet"), last)?,
            events: said(count(1, "event"), last)?,
            ..Counts::default()
        })
    }

    fn view(&self, trace: &Path, extra_values: u64) -> io::Result<Counts> {
        let page = trace.with_extension("counted.html");
        let output = [OsStr::new("-o"), page.as_os_str()];
        let mut args = words(&["view"], trace);
        args.extend(output);
        let said_text = String::from_utf8_lossy(&self.run(&args)?).into_owned();
        let html = fs::read_to_string(&page)?;
        fs::remove_file(&page)?;
        let shown = Page::decode(&html).ok_or_else(|| wrong("the page's data"))?;
        // `app.html: 3052 events in 40.3 kB, 13.2 bytes per event`, where slices and instants are
        // counted.
        let facts = said_text.rsplit(": ").next().unwrap_or_default();
        let said_slices = facts.split(' ').next().and_then(|it| it.parse().ok());
        if said_slices != Some(shown.finished + shown.unfinished + shown.instants) {
            return Err(wrong(&format!("{said_text}, of a page of {shown:?}")));
        }
        Ok(Counts {
            bytes: Some(shown.file_bytes),
            events: Some(shown.events().saturating_sub(extra_values)),
            undecodable: Some(shown.undecodable),
            ..Counts::default()
        })
    }
}

fn words<'a>(words: &'a [&'a str], file: &'a Path) -> Vec<&'a OsStr> {
    let words = words.iter().map(OsStr::new);
    words.chain([file.as_os_str()]).collect()
}

fn said(count: Option<u64>, where_: &str) -> io::Result<Option<u64>> {
    match count {
        Some(count) => Ok(Some(count)),
        None => Err(wrong(where_)),
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::other(format!("tracezero says something unexpected: {what}"))
}

/// The counts on a page of `tracezero view`.
#[derive(Debug, Default)]
struct Page {
    file_bytes: u64,
    finished: u64,
    unfinished: u64,
    instants: u64,
    /// The number of slice ends without a begin.
    lone_ends: u64,
    counter_values: u64,
    undecodable: u64,
}

impl Page {
    fn events(&self) -> u64 {
        let slices = 2 * self.finished + self.unfinished + self.lone_ends;
        slices + self.instants + self.counter_values
    }

    /// Decodes the data of a page. `sdk/tool/src/view/encode.rs` describes the layout.
    fn decode(html: &str) -> Option<Self> {
        let (_, data) = html.split_once("octet-stream\">")?;
        let (data, _) = data.split_once('<')?;
        let compressed = from_base64(data.trim())?;
        let mut bytes = Vec::new();
        let mut inflated = ZlibDecoder::new(&compressed[..]);
        inflated.read_to_end(&mut bytes).ok()?;
        let mut columns = Columns(&bytes);
        let _version = columns.number()?;
        let head_len = columns.number()?;
        let head: Value = serde_json::from_slice(columns.bytes(head_len)?).ok()?;
        if !head["left_out"].as_str()?.is_empty() {
            return None;
        }
        let notes: Vec<_> = head["notes"].as_array()?.iter().collect();
        let noted = |text: &str| {
            let notes = notes.iter().filter_map(|note| note.as_str());
            let said = notes.filter(|note| note.contains(text));
            said.filter_map(|note| note.split_once(' ')?.0.parse::<u64>().ok())
                .sum()
        };
        if noted("are not shown") != 0 {
            return None;
        }
        columns.blob()?; // strings
        let labels = columns.number()?;
        columns.skip(2 * labels)?;
        let rows = columns.number()?;
        columns.skip(3 * rows)?;
        let events = columns.number()?;
        columns.skip(4 * events)?;
        let instants = columns.number()?;
        columns.skip(instants)?;
        let unfinished = columns.number()?;
        columns.skip(unfinished)?;
        columns.blob()?; // arguments
        for _ in ["begins", "ends"] {
            let flows = columns.number()?;
            columns.skip(2 * flows)?;
        }
        let mut counter_values = 0;
        for _ in 0..columns.number()? {
            let [_track, count, is_integer] =
                [columns.number()?, columns.number()?, columns.number()?];
            columns.skip(count)?;
            match is_integer {
                1 => columns.skip(count)?,
                _ => drop(columns.bytes(8 * count)?),
            }
            counter_values += count;
        }
        columns.0.is_empty().then_some(Self {
            file_bytes: head["file_bytes"].as_u64()?,
            finished: events.checked_sub(instants + unfinished)?,
            unfinished,
            instants,
            lone_ends: noted("ends of slices have no begin"),
            counter_values,
            undecodable: noted(&SkipReason::NeedsState.to_string()),
        })
    }
}

/// The bytes of a page that are not yet read.
struct Columns<'a>(&'a [u8]);

impl<'a> Columns<'a> {
    fn number(&mut self) -> Option<u64> {
        let len = 1 + self.0.iter().position(|byte| *byte < 0x80)?;
        let number = self.bytes(len as u64)?;
        let low_first = number.iter().rev();
        Some(low_first.fold(0, |high, byte| high << 7 | u64::from(byte & 0x7f)))
    }

    fn skip(&mut self, numbers: u64) -> Option<()> {
        (0..numbers).try_for_each(|_| self.number().map(drop))
    }

    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Reads a blob: a count, that many lengths, and the bytes of all items.
    fn blob(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        let mut len = 0;
        for _ in 0..count {
            len += self.number()?;
        }
        self.bytes(len)
    }
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits = 0_u32;
    let letters = text.trim_end_matches('=').bytes();
    for (place, letter) in letters.enumerate() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        // Each letter except the first of four completes a byte.
        if place % 4 != 0 {
            bytes.push((bits >> (6 - 2 * (place % 4))) as u8);
        }
    }
    Some(bytes)
}
