//! The first pass over a file: finds the ids of its sequences and tracks.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use protozero::DecodeError;
use tracezero_core::protos::{TracePacket, TracePacketDecoder, TrackDescriptorDecoder};
use tracezero_reader::Packet;

use super::clocks::time_of_day_ns;
use super::rewrite::SERVICE;
use crate::error::ToolError;
use crate::packets::Packets;

/// The maximum difference of the time of day minus boot time between two files of one machine. It
/// may differ a little, because the time of day may be set while the machine runs.
const CLOCKS_AGREE_WITHIN_NS: i128 = 1_000_000_000;
/// The maximum number of tracks of all files together, and of sequences of each file. The tracks
/// and sequences together take about 1 GB.
const MAX_TRACKS: usize = 4 << 20;
const MAX_SEQUENCES: usize = 4 << 20;
/// The maximum number of a track's ancestors that are considered.
const MAX_PARENTS: usize = 64;

/// The tracks of all files so far, by the uuid that they have in the merged trace.
#[derive(Debug, Default)]
pub(super) struct Tracks(HashMap<u64, Identity>);

/// The ids, tracks and clocks of one file.
#[derive(Debug)]
pub(super) struct Survey {
    path: PathBuf,
    pub(super) sequences: HashSet<u32>,
    /// True if the sequence with the service's id belongs to an ordinary writer. That happens in
    /// traces that were written without a service.
    pub(super) service_id_is_a_writers: bool,
    /// The new uuids of tracks whose own uuid belongs to another track of an earlier file.
    pub(super) renumbered_tracks: HashMap<u64, u64>,
    /// The tracks of processes, by process id.
    processes: HashMap<i32, u64>,
    /// The time of day minus boot time.
    time_of_day_ns: Option<i128>,
}

/// The properties by which tracks of the same uuid in two files are recognized as different.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Identity {
    pid: Option<i32>,
    tid: Option<i64>,
    parent: u64,
    /// The hash of the name.
    name: Option<u64>,
}

/// A reason why two files may not belong together.
#[derive(Debug)]
pub(super) enum Difference<'s> {
    Clocks { files: [&'s Path; 2], seconds: f64 },
    Process { files: [&'s Path; 2], pid: i32 },
}

impl Survey {
    /// Reads the `index`-th file. Damage is not reported: the second pass does that.
    pub(super) fn of(index: usize, path: &Path, all: &mut Tracks) -> Result<Self, ToolError> {
        let mut survey = Self {
            path: path.to_owned(),
            sequences: HashSet::new(),
            service_id_is_a_writers: false,
            renumbered_tracks: HashMap::new(),
            processes: HashMap::new(),
            time_of_day_ns: None,
        };
        let mut tracks = HashMap::new();
        let mut packets = Packets::open_quietly(path)?;
        let mut last_sequence = 0;
        while let Some(packet) = packets.next()? {
            // The second pass reports a packet that cannot be decoded as damage.
            let Ok(decoded) = Packet::decode(packet.bytes) else {
                continue;
            };
            if decoded.head.sequence_id != last_sequence {
                last_sequence = decoded.head.sequence_id;
                survey.sequences.insert(last_sequence);
            }
            if decoded.head.sequence_id == SERVICE {
                survey.service_id_is_a_writers |= has_state(&decoded);
            }
            if survey.time_of_day_ns.is_none() {
                survey.time_of_day_ns = time_of_day_ns(packet.bytes);
            }
            if let Ok(Some(track)) = TracePacketDecoder::new(packet.bytes).track_descriptor() {
                let _ = survey.add_track(track, &mut tracks);
            }
            if all.0.len() + tracks.len() > MAX_TRACKS || survey.sequences.len() > MAX_SEQUENCES {
                return Err(ToolError::Read {
                    path: path.to_owned(),
                    message: format!(
                        "the trace has too many tracks or sequences; at most {MAX_TRACKS} of each can be merged"
                    ),
                });
            }
        }
        survey.renumber(index as u64, &tracks, all);
        Ok(survey)
    }

    fn add_track(
        &mut self,
        track: TrackDescriptorDecoder<'_>,
        tracks: &mut HashMap<u64, Identity>,
    ) -> Result<(), DecodeError> {
        let uuid = track.uuid()?.unwrap_or_default();
        let known = tracks.entry(uuid).or_default();
        if let Some(process) = track.process()? {
            known.pid = process.pid()?.or(known.pid);
            self.processes.extend(known.pid.map(|pid| (pid, uuid)));
        }
        if let Some(thread) = track.thread()? {
            known.pid = thread.pid()?.or(known.pid);
            known.tid = thread.tid()?.map(i64::from).or(known.tid);
        }
        if let Some(parent) = track.parent_uuid()? {
            known.parent = parent;
        }
        if let Some(name) = track.name()?.or(track.static_name()?) {
            known.name = Some(hash(name));
        }
        Ok(())
    }

    /// Gives new uuids to tracks that differ from those of earlier files, and to all tracks below
    /// them.
    fn renumber(&mut self, file: u64, tracks: &HashMap<u64, Identity>, all: &mut Tracks) {
        let taken: HashSet<u64> = tracks
            .iter()
            .filter(|(uuid, track)| {
                let other = all.0.get(uuid);
                other.is_some_and(|other| track.contradicts(other))
            })
            .map(|(uuid, _)| *uuid)
            .collect();
        for (uuid, track) in tracks {
            let lineage = std::iter::successors(Some(*uuid), |uuid| {
                tracks.get(uuid).map(|track| track.parent)
            });
            let merged = if lineage.take(MAX_PARENTS).any(|uuid| taken.contains(&uuid)) {
                let merged = hash((file, uuid));
                self.renumbered_tracks.insert(*uuid, merged);
                merged
            } else {
                *uuid
            };
            all.0.entry(merged).or_insert(*track);
        }
    }

    /// Returns reasons against merging this file with another.
    pub(super) fn differences<'s>(&'s self, other: &'s Self) -> Vec<Difference<'s>> {
        let files = [other.path.as_path(), self.path.as_path()];
        let mut found = Vec::new();
        if let (Some(a), Some(b)) = (self.time_of_day_ns, other.time_of_day_ns)
            && (a - b).abs() > CLOCKS_AGREE_WITHIN_NS
        {
            let seconds = (a - b).abs() as f64 / 1e9;
            found.push(Difference::Clocks { files, seconds });
        }
        let mut shared: Vec<i32> = self
            .processes
            .iter()
            .filter(|(pid, uuid)| other.processes.get(pid).is_some_and(|other| other != *uuid))
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

/// Returns true if a packet depends on other packets of its sequence, or if other packets depend on
/// it.
fn has_state(packet: &Packet<'_>) -> bool {
    packet.head.sequence_flags != 0
        || packet.head.payload_field == TracePacket::TRACK_EVENT_FIELD_NUMBER
        || !packet.interned_data().is_empty()
        || !packet.defaults().is_empty()
}

impl Identity {
    /// Returns true if this track cannot be the same track as `other`.
    fn contradicts(&self, other: &Self) -> bool {
        fn differ<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            matches!((a, b), (Some(a), Some(b)) if a != b)
        }
        let is_of_system = self.pid.is_some() && other.pid.is_some();
        differ(self.pid, other.pid)
            || differ(self.tid, other.tid)
            || self.pid.is_some() != other.pid.is_some()
            // Threads and processes may change their names.
            || (!is_of_system && differ(self.name, other.name))
            || (!is_of_system && self.parent != other.parent)
    }
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
                 come from two machines, or if the machine was rebooted between them",
                a.display(),
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

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
