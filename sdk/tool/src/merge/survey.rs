//! The first pass over a file: finds its sequences, tracks and clocks, and its machine.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use tracezero_core::protos::{TracePacket, TracePacketDecoder};
use tracezero_reader::Packet;

use super::clocks::{FileClocks, Snapshot};
use super::host::Host;
use super::packet_hash::anchor_time;
use super::rewrite::SERVICE;
use super::tracks::{FileTracks, Tracks};
use crate::error::ToolError;
use crate::packets::Packets;

/// The maximum difference of the time of day minus boot time between two files of one machine. It
/// may differ a little, because the time of day may be set while the machine runs.
const CLOCKS_AGREE_WITHIN_NS: i128 = 1_000_000_000;
/// The maximum number of tracks of all files together, and of sequences of each file. The tracks
/// and sequences together take about 1 GB.
const MAX_TRACKS: usize = 4 << 20;
const MAX_SEQUENCES: usize = 4 << 20;
/// The maximum number of other machines that a file may have.
const MAX_MACHINES: usize = 256;

/// The ids, tracks and clocks of one file.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) path: PathBuf,
    pub(super) sequences: HashMap<u32, SequenceFacts>,
    /// True if the sequence with the service's id belongs to an ordinary writer. That happens in
    /// traces that were written without a service.
    pub(super) service_id_is_a_writers: bool,
    pub(super) tracks: FileTracks,
    pub(super) clocks: FileClocks,
    pub(super) host: Host,
    /// The ids of other machines whose packets the file has.
    pub(super) machine_ids: BTreeSet<u32>,
}

/// What the packets of a sequence tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SequenceFacts {
    /// The process that has written the sequence.
    pub(super) pid: Option<i32>,
    /// The times of the first and the last packet whose time does not depend on other packets.
    pub(super) anchors_ns: Option<(u64, u64)>,
}

/// A reason why two files may not belong together.
#[derive(Debug)]
pub(super) enum Difference<'s> {
    Clocks { files: [&'s Path; 2], seconds: f64 },
    Process { files: [&'s Path; 2], pid: i32 },
}

impl Survey {
    /// Reads a file. `all` are the tracks of earlier files. Damage is not reported: the second pass
    /// does that.
    pub(super) fn of(path: &Path, all: &Tracks) -> Result<Self, ToolError> {
        let mut survey = Self {
            path: path.to_owned(),
            sequences: HashMap::new(),
            service_id_is_a_writers: false,
            tracks: FileTracks::default(),
            clocks: FileClocks::default(),
            host: Host::default(),
            machine_ids: BTreeSet::new(),
        };
        let mut packets = Packets::open_quietly(path)?;
        // The facts of the sequence that the last packet was on. Packets of a sequence come in runs.
        let mut current = (0, SequenceFacts::default());
        while let Some(packet) = packets.next()? {
            // The second pass reports a packet that cannot be decoded as damage.
            let Ok(decoded) = Packet::decode(packet.bytes) else {
                continue;
            };
            let id = decoded.head.sequence_id;
            if id != current.0 {
                survey.sequences.insert(current.0, current.1);
                current = (id, *survey.sequences.entry(id).or_default());
            }
            current.1.add(&decoded);
            if id == SERVICE {
                survey.service_id_is_a_writers |= has_state(&decoded);
            }
            survey.add(&decoded);
            let tracks = all.len() + survey.tracks.len();
            if tracks > MAX_TRACKS || survey.sequences.len() > MAX_SEQUENCES {
                return Err(ToolError::Read {
                    path: path.to_owned(),
                    message: format!(
                        "the trace has too many tracks or sequences; at most {MAX_TRACKS} of each can be merged"
                    ),
                });
            }
        }
        survey.sequences.insert(current.0, current.1);
        Ok(survey)
    }

    fn add(&mut self, packet: &Packet<'_>) {
        if packet.head.payload_field == TracePacket::TRACK_EVENT_FIELD_NUMBER {
            return;
        }
        if let Ok(Some(track)) = TracePacketDecoder::new(packet.bytes()).track_descriptor() {
            // Ignore the error: the second pass copies a malformed descriptor as it is.
            let _ = self.tracks.add(track);
        }
        if let Some(id @ 1..) = packet.head.machine_id {
            if self.machine_ids.len() < MAX_MACHINES {
                self.machine_ids.insert(id);
            }
            return;
        }
        if let Some(snapshot) = Snapshot::of_packet(packet.bytes()) {
            self.clocks.add(snapshot);
        }
        self.host.add(packet);
    }

    /// Returns the earliest time that a packet tells; that of the first clock snapshot if none does.
    /// Snapshots of a ring also have the clock snapshot from the begin of their recording, which may
    /// be long ago.
    pub(super) fn first_ns(&self) -> u64 {
        let writers = self
            .sequences
            .iter()
            .filter(|(id, _)| self.is_of_writer(**id));
        let anchors = writers.filter_map(|(_, facts)| Some(facts.anchors_ns?.0));
        let first = anchors.min().or(self.clocks.first_boot_ns);
        first.unwrap_or_default()
    }

    /// Returns true if the sequence is not that of the service.
    pub(super) fn is_of_writer(&self, sequence_id: u32) -> bool {
        sequence_id > SERVICE || (sequence_id == SERVICE && self.service_id_is_a_writers)
    }

    /// Returns reasons against merging this file with another of the same machine.
    pub(super) fn differences<'s>(&'s self, other: &'s Self) -> Vec<Difference<'s>> {
        let files = [other.path.as_path(), self.path.as_path()];
        let mut found = Vec::new();
        if let (Some(a), Some(b)) = (self.clocks.ahead_ns(), other.clocks.ahead_ns())
            && (a - b).abs() > CLOCKS_AGREE_WITHIN_NS
        {
            let seconds = (a - b).abs() as f64 / 1e9;
            found.push(Difference::Clocks { files, seconds });
        }
        let others = &other.tracks.processes;
        let mut shared: Vec<i32> = self
            .tracks
            .processes
            .iter()
            .filter(|(pid, uuid)| others.get(pid).is_some_and(|other| other != *uuid))
            .map(|(pid, _)| *pid)
            .collect();
        shared.sort_unstable();
        found.extend(
            shared
                .into_iter()
                .map(|pid| Difference::Process { files, pid }),
        );
        found
    }
}

impl SequenceFacts {
    #[inline]
    fn add(&mut self, packet: &Packet<'_>) {
        self.pid = self.pid.or(packet.head.trusted_pid);
        if let Some(time_ns) = anchor_time(packet) {
            let (first, last) = self.anchors_ns.unwrap_or((time_ns, time_ns));
            self.anchors_ns = Some((first.min(time_ns), last.max(time_ns)));
        }
    }
}

/// Returns true if a packet depends on other packets of its sequence, or if other packets depend on
/// it.
fn has_state(packet: &Packet<'_>) -> bool {
    packet.head.sequence_flags != 0
        || packet.head.payload_field == TracePacket::TRACK_EVENT_FIELD_NUMBER
        || !packet.interned_data().is_empty()
        || !packet.defaults().is_empty()
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clocks {
                files: [a, b],
                seconds,
            } => write!(
                f,
                "the clocks of {} and {} are {seconds:.1} s apart; their times do not compare if they \
                 come from two machines, or if the machine was rebooted between them: then add \
                 --machine {}=NAME",
                a.display(),
                b.display(),
                b.display()
            ),
            Self::Process { files: [a, b], pid } => write!(
                f,
                "{} and {} have different processes with the pid {pid}; they are shown as one",
                a.display(),
                b.display()
            ),
        }
    }
}
