//! Says what a recording has: events and losses of each process.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;

use protozero::{DecodeError, Decoder, Value};
use tracezero_core::packet_content::PacketContent;
use tracezero_core::protos::TracePacketDecoder;
use tracezero_core::protos::trace_packet::SequenceFlags;
use tracezero_reader::{Losses, SequenceLosses};

use crate::error::ToolError;
use crate::kernel_account::KernelAccount;
use crate::packets::Packets;
use crate::states::StateAccount;
use crate::table::printable;
use crate::units::{self, bytes, plural};

/// The fields by which this SDK extends packets.
const OF_SDK: RangeInclusive<u32> = 1990..=1999;

/// The sequence of the daemon's own packets.
const SERVICE: u32 = 1;

/// The maximum number of processes that are listed.
const LISTED_PROCESSES_MAX: usize = 30;

/// The maximum length of a command line in the report, in characters.
const COMMAND_MAX_CHARS: usize = 60;

/// The maximum number of threads with losses that are listed.
const LISTED_THREADS_MAX: usize = 20;

/// The contents of a recording.
#[derive(Debug, Default)]
pub(super) struct Contents {
    bytes: u64,
    sequences: BTreeMap<u32, Sequence>,
    /// The names of processes and their arguments, by process id.
    commands: BTreeMap<i32, String>,
    losses: Losses,
    /// True if the configuration asks for a ring of the newest packets.
    expects_overwrites: bool,
    /// The number of packets that such a ring has overwritten.
    overwritten: u64,
    states: Vec<StateAccount>,
    kernel: KernelAccount,
}

/// The packets of a writer, which are those of a thread or of a data source.
#[derive(Debug, Default)]
struct Sequence {
    /// The process id; `None` for packets of the daemon itself.
    pid: Option<i32>,
    /// The number of events that readers can decode.
    events: u64,
    /// The number of packets of other data sources.
    packets: u64,
    /// The number of events that readers cannot decode, because definitions are lost.
    unreadable: u64,
    /// True if the sequence has cleared its incremental state, and has lost no packet since.
    /// Readers then have all definitions that packets need.
    has_state: bool,
    /// True if the packets are those of the kernel, which a process has only read.
    is_of_kernel: bool,
}

impl Contents {
    /// Reads a trace.
    pub(super) fn of(path: &Path) -> Result<Self, ToolError> {
        let mut contents = Self::default();
        let mut packets = Packets::open(path)?;
        loop {
            let Some(packet) = packets.next()? else {
                contents.bytes = packets.read_bytes();
                packets.finish();
                return Ok(contents);
            };
            if let Err(error) = contents.add(packet.bytes) {
                packets.reject_last(error);
            }
        }
    }

    fn add(&mut self, packet: &[u8]) -> Result<(), DecodeError> {
        let decoder = TracePacketDecoder::new(packet);
        let id = decoder.trusted_packet_sequence_id()?.unwrap_or_default();
        let sequence = self.sequences.entry(id).or_default();
        let is_event = sequence.add_event(&decoder)?;
        // Only some packets of each sequence contain the process id.
        if let Some(pid) = decoder.trusted_pid()?.filter(|pid| *pid > 0) {
            sequence.pid = Some(pid);
        }
        if let Some(descriptor) = decoder.track_descriptor()?
            && let Some(process) = descriptor.process()?
            && let (Some(pid), Some(name)) = (process.pid()?, process.process_name()?)
            && let Entry::Vacant(place) = self.commands.entry(pid)
        {
            let mut command = name.to_owned();
            for arg in process.cmdline().skip(1) {
                command += " ";
                command += arg?;
            }
            place.insert(cut(&printable(&command)));
        }
        // Most packets are events, which have none of the fields below.
        if is_event {
            return Ok(());
        }
        let is_of_kernel = self.kernel.add(packet)?;
        let mut content = PacketContent::default();
        for field in Decoder::new(packet).fields() {
            let field = field?;
            if matches!(field.value, Value::Bytes(_)) && !OF_SDK.contains(&field.number) {
                content.add_field(field.number);
            }
            if let (Losses::ACCOUNTS_FIELD_NUMBER, Value::Bytes(payload)) =
                (field.number, field.value)
            {
                self.states = StateAccount::read_all(payload)?;
            }
        }
        self.losses.add_packet(packet)?;
        if let Some(sequence) = self.sequences.get_mut(&id).filter(|_| id != SERVICE) {
            sequence.packets += u64::from(content == PacketContent::Data);
            sequence.is_of_kernel |= is_of_kernel;
        }
        Ok(())
    }

    /// Counts overwritten packets no longer as lost: the configuration asks for a ring of the newest ones.
    pub(super) fn expect_overwrites(mut self) -> Self {
        self.expects_overwrites = true;
        self.overwritten = self.losses.take_overwritten();
        self
    }

    /// Returns true if the trace has packets of any process, or events of the kernel.
    pub(super) fn has_anything(&self) -> bool {
        self.kernel.events() > 0 || self.of_processes().any(|sequence| sequence.pid.is_some())
    }

    /// Returns the writers of processes. The kernel's packets belong to no process.
    fn of_processes(&self) -> impl Iterator<Item = &Sequence> {
        let sequences = self.sequences.values();
        sequences.filter(|sequence| !sequence.is_of_kernel)
    }

    /// Returns true if the trace has packets of a process.
    pub(super) fn has_process(&self, pid: u32) -> bool {
        let pid = i32::try_from(pid).ok();
        pid.is_some() && self.sequences.values().any(|sequence| sequence.pid == pid)
    }

    fn unreadable(&self) -> u64 {
        self.sequences
            .values()
            .map(|sequence| sequence.unreadable)
            .sum()
    }

    /// Returns the lines of the report. `producers` has names of processes, by process id: those that
    /// record no events are not named in the trace.
    pub(super) fn lines(&self, path: &Path, producers: &BTreeMap<u32, String>) -> Vec<String> {
        // The numbers of events and of packets of other data sources.
        let mut processes: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
        let mut all = (0, 0);
        for sequence in self.of_processes() {
            let counts = (sequence.events, sequence.packets);
            all = sum(all, counts);
            if let Some(pid) = sequence.pid {
                let of_process = processes.entry(pid).or_default();
                *of_process = sum(*of_process, counts);
            }
        }
        let folded = match self.losses.folded {
            0 => String::new(),
            folded => format!(" {folded} folded into states,"),
        };
        let overwritten = match self.overwritten {
            0 => String::new(),
            overwritten => format!(" {overwritten} older ones overwritten,"),
        };
        let mut lines = vec![format!(
            "{} of {}, {},{overwritten}{folded} {} lost: {}",
            recorded(all),
            units::processes(processes.len() as u64),
            bytes(self.bytes),
            self.losses
                .packets()
                .saturating_add(match self.expects_overwrites {
                    // They depend on overwritten ones.
                    true => 0,
                    false => self.unreadable(),
                }),
            path.display()
        )];
        for (pid, counts) in processes.iter().take(LISTED_PROCESSES_MAX) {
            let producer = || producers.get(&pid.cast_unsigned());
            let command = self.commands.get(pid).or_else(producer);
            let command = command.map_or("(no name)", String::as_str);
            lines.push(format!("  {pid:>8}  {command}: {}", recorded(*counts)));
        }
        if processes.len() > LISTED_PROCESSES_MAX {
            let more = processes.values().skip(LISTED_PROCESSES_MAX);
            lines.push(format!(
                "  and {} more: {}",
                units::processes(more.len() as u64),
                recorded(more.fold((0, 0), |all, counts| sum(all, *counts)))
            ));
        }
        lines.extend(
            self.kernel
                .lines()
                .into_iter()
                .map(|line| format!("  the kernel: {line}")),
        );
        self.append_losses(&mut lines);
        let incomplete = self.states.iter().filter(|state| !state.error.is_empty());
        lines.extend(incomplete.map(|state| {
            let error = printable(&state.error);
            match state.failed {
                0 => format!("  {:?} has no state: {error}", state.data_source),
                failed => format!(
                    "  the state of {:?} lacks {}: {error}",
                    state.data_source,
                    plural(failed, "overwritten packet")
                ),
            }
        }));
        lines
    }

    fn append_losses(&self, lines: &mut Vec<String>) {
        let lossy: Vec<(&u32, &SequenceLosses)> = self
            .losses
            .lossy()
            .filter(|(_, losses)| losses.packets_lost() > 0)
            .collect();
        for (sequence, losses) in lossy.iter().take(LISTED_THREADS_MAX) {
            let pid = self
                .sequences
                .get(sequence)
                .and_then(|sequence| sequence.pid);
            let of_process = pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
            let counts = losses.packets.iter();
            let counts: Vec<_> = counts
                .map(|(cause, count)| format!("{count} {cause}"))
                .collect();
            lines.push(format!(
                "  lost by {}{of_process}: {}",
                match &losses.thread_name[..] {
                    "" => format!("a thread without a name (sequence {sequence})"),
                    name => format!("thread {name}"),
                },
                counts.join(", ")
            ));
        }
        if lossy.len() > LISTED_THREADS_MAX {
            let more = (lossy.len() - LISTED_THREADS_MAX) as u64;
            lines.push(format!("  and by {}", plural(more, "more thread")));
        }
        let unreadable = self.unreadable();
        if unreadable > 0 {
            let verb = match self.expects_overwrites {
                true => "cannot be read",
                false => "lost",
            };
            lines.push(format!(
                "  {verb}: {}, which need names or times of packets before them",
                plural(unreadable, "event")
            ));
        }
        let causes: BTreeSet<&str> = lossy
            .iter()
            .flat_map(|(_, losses)| losses.packets.iter().map(|(cause, _)| *cause))
            .collect();
        lines.extend(causes.into_iter().filter_map(remedy).map(str::to_owned));
    }
}

impl Sequence {
    /// Counts the event of a packet. Returns false if it has none.
    fn add_event(&mut self, packet: &TracePacketDecoder<'_>) -> Result<bool, DecodeError> {
        let flags = packet.sequence_flags()?.unwrap_or_default();
        let has_flag = |flag: SequenceFlags| flags & flag.0.cast_unsigned() != 0;
        if packet.previous_packet_dropped()?.unwrap_or_default() != 0 {
            self.has_state = false;
        }
        if has_flag(SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED) {
            self.has_state = true;
        }
        let is_event = packet.track_event()?.is_some();
        if is_event {
            let needs_state = has_flag(SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE);
            match needs_state && !self.has_state {
                true => self.unreadable += 1,
                false => self.events += 1,
            }
        }
        Ok(is_event)
    }
}

fn sum(all: (u64, u64), more: (u64, u64)) -> (u64, u64) {
    (all.0 + more.0, all.1 + more.1)
}

fn recorded((events, packets): (u64, u64)) -> String {
    units::events_and_packets(events, packets)
}

/// Cuts a command line that is long.
fn cut(command: &str) -> String {
    match command.char_indices().nth(COMMAND_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_owned(),
    }
}

/// Returns what to do about a cause of losses.
fn remedy(cause: &str) -> Option<&'static str> {
    match cause {
        "dropped" => Some(
            "  dropped: a thread has found its shared memory full for too long. Record fewer categories \
             with --categories, or give the program more with SystemBuilder::shared_memory_hint",
        ),
        "overwritten" | "discarded" => Some(
            "  overwritten or discarded: the buffer was full before the file was written. Give a larger \
             --buffer, or write to a faster disk",
        ),
        "file full" | "not written" => {
            Some("  file full or not written: the disk is full, or the file reached its limit")
        }
        _ => None,
    }
}
