//! Merges traces of several processes, or of several machines, into one.

mod clocks; // times of clock snapshots
mod host; // the machine that a trace names
mod options; // options with a value for one of the files
mod fields; // copies messages with some fields replaced
mod packet_hash; // recognizes packets by their content
mod tracks; // recognizes different tracks with the same uuid
mod survey; // the first pass: finds the ids that a file uses
mod machines; // groups files by machine
mod clock_offset; // finds by how much the clock of a machine must be moved
mod flows; // bounds of clock offsets, by flows
mod placement; // the clock offset of each machine
mod stretches; // the packets of all files so far
mod duplicates; // compares the packets of a sequence with those of earlier files
mod overlaps; // finds packets that several files have
mod rewrite; // gives packets the ids of the merged trace
mod introduction; // the packets that introduce the machines
mod turns; // the second pass: writes the packets

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use self::machines::{Machines, OfFile};
use self::overlaps::Overlaps;
use self::placement::Placement;
use self::rewrite::{Renumbering, Rewriter, SequenceIds};
use self::survey::Survey;
use self::tracks::Tracks;
use self::turns::{MergedFile, write_all};
use crate::Outcome;
use crate::error::ToolError;
use crate::output::{OutputFile, refuse_input};
use crate::packets::Packets;
use crate::trace_file::{Packing, TraceFile};
use crate::units::plural;

/// Merges traces of several processes, or of several machines, into one
///
/// Sequences get new ids. So do different tracks in different files that happen to have the same id.
/// Flow ids stay as they are, so that arrows between processes are drawn if both used the same id.
///
/// Traces are of different machines if their attributes host.id or host.boot_id differ. Traces
/// without these are taken to be of the first trace's machine, without a reboot between them; a note
/// tells you if their clocks do not agree. Say with --machine that a trace is of another one.
///
/// The packets of other machines keep their times and get the id of their machine. The trace says by
/// how much the clocks are apart, and viewers convert the times. That comes from the time of day, which
/// NTP sets alike on all machines, and from flows that join events of both machines: nothing arrives
/// before it was sent. The event with last_flow receives. Without one, flows between events of the same
/// names go in the direction that most of them have by the time of day. If flows contradict the time of
/// day, the flows count. A note tells the offset of each machine, what it is based on, and how exact it
/// is. Perfetto's UI keeps the machines apart, but draws no arrows between them.
///
/// Packets that several files have, such as two snapshots of one flight recorder, are written once.
///
/// Packets are taken from the files in turns, by the times of their clock snapshots. Packets that
/// describe a recording as a whole are taken from the first file: its configuration, uuid, system
/// and buffer statistics; the attributes of all files are kept. Losses are marked on the sequences of all files. The
/// service's events about flushing and reading buffers are left out, because they are true of one file only.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: tracezero merge client.pftrace server.pftrace -o both.pftrace
         tracezero merge a.pftrace b.pftrace --machine b.pftrace=server -o both.pftrace
         tracezero merge flight-slow-*.pftrace -o all.pftrace"
)]
pub(crate) struct Args {
    /// The traces; each is read several times, so the standard input cannot be one
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file for the merged trace, or - for the standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The machine of a trace, whatever its attributes are; the same name for traces of one machine
    #[arg(long, value_name = "FILE=NAME", value_parser = options::machine)]
    machine: Vec<OfFile<String>>,
    /// What to add to the times of a trace's machine, such as -1.5ms; 0 keeps the times
    #[arg(long, value_name = "FILE=DURATION", value_parser = options::clock_offset, allow_hyphen_values = true)]
    clock_offset: Vec<OfFile<i64>>,
    /// Keep packets as often as the files have them
    #[arg(long)]
    keep_duplicates: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    if args.files.iter().any(|file| file == Path::new("-")) {
        let message = "merge reads each trace several times, which the standard input does not allow; name a file";
        return Err(ToolError::Usage(message.to_owned()));
    }
    refuse_input(&args.output, args.files.iter().map(PathBuf::as_path))?;
    OfFile::check("--machine", &args.machine, &args.files)?;
    OfFile::check("--clock-offset", &args.clock_offset, &args.files)?;

    let files = Surveyed::read(args)?;
    files.refuse_nested_machines()?;
    files.note_differences();
    let placement = Placement::find(&files.machines, &files.surveys, &args.clock_offset)?;
    let overlaps = match args.keep_duplicates {
        true => Overlaps::default(),
        false => Overlaps::find(&files.surveys, |file| files.machine_of[file])?,
    };
    note_overlaps(&overlaps, &files.surveys);

    let mut out = TraceFile::new(OutputFile::create(&args.output)?, Packing::Plain);
    for packet in placement.introductions(&files.machines, &files.surveys)? {
        out.write(&packet)?;
    }
    let mut ids = SequenceIds::reserving(files.surveys[0].sequences.keys().copied(), &overlaps);
    let mut merged = files.open(overlaps, &placement)?;
    write_all(&mut merged, &mut ids, &mut out)?;
    let packets = out.packets();
    out.finish()?;
    eprintln!("{packets} packets of {} files", merged.len());
    let outcomes: Vec<_> = merged
        .into_iter()
        .map(|file| file.packets.finish())
        .collect();
    match outcomes.contains(&Outcome::Findings) {
        true => Ok(Outcome::Findings),
        false => Ok(Outcome::Fine),
    }
}

/// The files after the first pass.
struct Surveyed {
    surveys: Vec<Survey>,
    machines: Machines,
    /// The index of each file's machine.
    machine_of: Vec<usize>,
    /// The new uuids of each file's tracks.
    renumbered_tracks: Vec<HashMap<u64, u64>>,
}

impl Surveyed {
    fn read(args: &Args) -> Result<Self, ToolError> {
        let mut tracks = Tracks::default();
        let mut found = Self {
            surveys: Vec::new(),
            machines: Machines::default(),
            machine_of: Vec::new(),
            renumbered_tracks: Vec::new(),
        };
        for (file, path) in args.files.iter().enumerate() {
            let mut survey = Survey::of(path, &tracks)?;
            let name = OfFile::find(&args.machine, path).map(String::as_str);
            let machine = found.machines.add(file, &survey.host, name);
            let renumbered = tracks.add(file, machine, survey.tracks.take());
            found.surveys.push(survey);
            found.machine_of.push(machine);
            found.renumbered_tracks.push(renumbered);
        }
        Ok(found)
    }

    /// Refuses a trace of several machines, unless it is the first: the relations of its clocks are
    /// to those of its own first machine.
    fn refuse_nested_machines(&self) -> Result<(), ToolError> {
        let nested = self.surveys.iter().skip(1);
        match nested
            .into_iter()
            .find(|survey| !survey.machine_ids.is_empty())
        {
            None => Ok(()),
            Some(survey) => Err(ToolError::Usage(format!(
                "{} has packets of several machines; name it first, or merge the traces of the \
                 machines in one go",
                survey.path.display()
            ))),
        }
    }

    /// Tells the user why files of one machine may not belong together.
    fn note_differences(&self) {
        for (later, survey) in self.surveys.iter().enumerate() {
            let machine = self.machine_of[later];
            let earlier = (0..later).filter(|file| self.machine_of[*file] == machine);
            for other in earlier {
                for note in survey.differences(&self.surveys[other]) {
                    eprintln!("note: {note}");
                }
            }
        }
    }

    /// Opens the files for the second pass.
    fn open(self, overlaps: Overlaps, placement: &Placement) -> Result<Vec<MergedFile>, ToolError> {
        let shares_service = !self.surveys.iter().any(|it| it.service_id_is_a_writers);
        let mut overlaps = overlaps.files.into_iter();
        let mut files = Vec::new();
        let parts = self.surveys.iter().zip(self.renumbered_tracks);
        for (index, (survey, tracks)) in parts.enumerate() {
            let machine = self.machine_of[index];
            let overlap = overlaps.next().unwrap_or_default();
            let waits_for = overlap.waits_for.clone();
            let rewriter = Rewriter::new(Renumbering {
                is_first: index == 0,
                shares_service,
                tracks,
                machine_id: placement.machine_id(machine),
                describes_machine: self.machines.all()[machine].files.first() == Some(&index),
                overlap,
            });
            let packets = Packets::open(&survey.path)?;
            let offset_ns = placement.offset_ns(machine);
            files.push(MergedFile::new(
                packets,
                rewriter,
                survey.first_ns(),
                offset_ns,
                waits_for,
            ));
        }
        Ok(files)
    }
}

/// Tells the user which files overlap.
fn note_overlaps(overlaps: &Overlaps, surveys: &[Survey]) {
    for (file, survey) in overlaps.files.iter().zip(surveys) {
        if file.duplicates > 0 {
            let packets = plural(file.duplicates, "packet");
            eprintln!(
                "note: {packets} of {} are in another file, too, and are written once",
                survey.path.display()
            );
        }
    }
    for (earlier, later, pid) in &overlaps.apart {
        eprintln!(
            "note: {} and {} are two recordings of the process {pid} at the same time; what both have \
             recorded is there twice",
            surveys[*earlier].path.display(),
            surveys[*later].path.display()
        );
    }
}
