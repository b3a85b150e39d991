//! Merges traces of several processes into one.

mod clocks; // times of clock snapshots
mod fields; // copies messages with some fields replaced
mod rewrite; // gives packets the ids of the merged trace
mod survey; // the first pass: finds the ids that a file uses

use std::path::{Path, PathBuf};

use self::clocks::snapshot_time_ns;
use self::rewrite::{Renumbering, Rewriter, SequenceIds};
use self::survey::{Survey, Tracks};
use crate::Outcome;
use crate::error::ToolError;
use crate::output::{OutputFile, refuse_input};
use crate::packets::Packets;
use crate::trace_file::{Packing, TraceFile};

/// Merges traces of several processes into one
///
/// The processes must have run on one machine, without a reboot between them, so that their clocks
/// agree; a note tells you if they do not. Sequences get new ids. So do different tracks in
/// different files that happen to have the same id. Flow ids stay as they are, so that arrows
/// between processes are drawn if both used the same id.
///
/// Packets are taken from the files in turns, by the times of their clock snapshots. Packets that
/// describe a recording as a whole are taken from the first file: its configuration, uuid, system
/// and buffer statistics. Losses are marked on the sequences of all files. The service's events
/// about flushing and reading buffers are left out, because they are true of one file only.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero merge client.pftrace server.pftrace -o both.pftrace")]
pub(crate) struct Args {
    /// The traces; each is read twice, so the standard input cannot be one
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file for the merged trace, or - for the standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    if args.files.iter().any(|file| file == Path::new("-")) {
        let message =
            "merge reads each trace twice, which the standard input does not allow; name a file";
        return Err(ToolError::Usage(message.to_owned()));
    }
    refuse_input(&args.output, args.files.iter().map(PathBuf::as_path))?;
    let mut tracks = Tracks::default();
    let mut surveys: Vec<Survey> = Vec::new();
    for (index, path) in args.files.iter().enumerate() {
        let survey = Survey::of(index, path, &mut tracks)?;
        for other in &surveys {
            for note in survey.differences(other) {
                eprintln!("note: {note}");
            }
        }
        surveys.push(survey);
    }
    let shares_service = !surveys.iter().any(|survey| survey.service_id_is_a_writers);
    let mut ids = SequenceIds::reserving(&surveys[0].sequences);
    let mut files = Vec::new();
    for (index, (path, survey)) in args.files.iter().zip(surveys).enumerate() {
        files.push(MergedFile {
            packets: Packets::open(path)?,
            rewriter: Rewriter::new(Renumbering {
                is_first: index == 0,
                shares_service,
                tracks: survey.renumbered_tracks,
            }),
            snapshot: Vec::new(),
            time_ns: 0,
            is_at_end: false,
        });
    }
    let mut out = TraceFile::new(OutputFile::create(&args.output)?, Packing::Plain);
    while let Some(file) = next_in_turn(&mut files) {
        file.write_until_snapshot(&mut ids, &mut out)?;
    }
    let packets = out.packets();
    out.finish()?;
    eprintln!("{packets} packets of {} files", files.len());
    let outcomes: Vec<_> = files
        .into_iter()
        .map(|file| file.packets.finish())
        .collect();
    match outcomes.contains(&Outcome::Findings) {
        true => Ok(Outcome::Findings),
        false => Ok(Outcome::Fine),
    }
}

/// Returns the file whose next packets are the earliest, according to its clock snapshots.
fn next_in_turn(files: &mut [MergedFile]) -> Option<&mut MergedFile> {
    let unread = files.iter_mut().filter(|file| !file.is_at_end);
    unread.min_by_key(|file| file.time_ns)
}

/// A file that is being merged.
struct MergedFile {
    packets: Packets,
    rewriter: Rewriter,
    /// The clock snapshot that comes next in the file; empty at the start.
    snapshot: Vec<u8>,
    /// The time of `snapshot`.
    time_ns: u64,
    is_at_end: bool,
}

impl MergedFile {
    /// Writes all packets before the next clock snapshot.
    fn write_until_snapshot(
        &mut self,
        ids: &mut SequenceIds,
        out: &mut TraceFile,
    ) -> Result<(), ToolError> {
        if !self.snapshot.is_empty()
            && let Ok(Some(packet)) = self.rewriter.rewrite(&self.snapshot, ids)
        {
            out.write(packet)?;
        }
        loop {
            let Some(packet) = self.packets.next()? else {
                self.is_at_end = true;
                return Ok(());
            };
            if let Some(time_ns) = snapshot_time_ns(packet.bytes) {
                self.snapshot.clear();
                self.snapshot.extend_from_slice(packet.bytes);
                // This time never goes back, so that each file keeps its order even if its clock
                // goes back.
                self.time_ns = self.time_ns.max(time_ns);
                return Ok(());
            }
            match self.rewriter.rewrite(packet.bytes, ids) {
                Ok(Some(packet)) => out.write(packet)?,
                Ok(None) => {}
                Err(error) => self.packets.reject_last(error),
            }
        }
    }
}
