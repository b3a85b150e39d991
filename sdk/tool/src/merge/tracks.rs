//! Recognizes different tracks that have the same uuid in different files.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use protozero::DecodeError;
use tracezero_core::protos::TrackDescriptorDecoder;

/// The maximum number of a track's ancestors that are considered.
const MAX_PARENTS: usize = 64;

/// The tracks of all files so far, by the uuid that they have in the merged trace.
#[derive(Debug, Default)]
pub(super) struct Tracks(HashMap<u64, Identity>);

/// The tracks of one file.
#[derive(Debug, Default)]
pub(super) struct FileTracks {
    tracks: HashMap<u64, Identity>,
    /// The tracks of processes, by process id.
    pub(super) processes: HashMap<i32, u64>,
}

/// The properties by which tracks of the same uuid in two files are recognized as different.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    machine: usize,
    pid: Option<i32>,
    tid: Option<i64>,
    parent: u64,
    /// The hash of the name.
    name: Option<u64>,
}

/// How many tracks of other files a uuid is told apart from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distinction {
    /// The uuid stays as it is.
    None,
    /// The files of a machine share the new uuid.
    OfMachine,
    /// Only one file has the new uuid.
    OfFile,
}

impl FileTracks {
    /// Takes the tracks out, and leaves the processes.
    pub(super) fn take(&mut self) -> HashMap<u64, Identity> {
        std::mem::take(&mut self.tracks)
    }

    pub(super) fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Adds the descriptor of a track. Returns an error if it is malformed.
    pub(super) fn add(&mut self, track: TrackDescriptorDecoder<'_>) -> Result<(), DecodeError> {
        let uuid = track.uuid()?.unwrap_or_default();
        let known = self.tracks.entry(uuid).or_default();
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
}

impl Tracks {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the tracks of a file. Returns new uuids for those whose own uuid belongs to another
    /// track of an earlier file, and for all tracks below them.
    pub(super) fn add(
        &mut self,
        file: usize,
        machine: usize,
        mut tracks: HashMap<u64, Identity>,
    ) -> HashMap<u64, u64> {
        for track in tracks.values_mut() {
            track.machine = machine;
        }
        let distinct: HashMap<u64, Distinction> = tracks
            .iter()
            .map(|(uuid, track)| (*uuid, self.distinction(*uuid, track, file)))
            .filter(|(_, distinction)| *distinction > Distinction::None)
            .collect();
        let mut renumbered = HashMap::new();
        for (uuid, track) in &tracks {
            let lineage = std::iter::successors(Some(*uuid), |uuid| {
                tracks.get(uuid).map(|track| track.parent)
            });
            let above = lineage.take(MAX_PARENTS);
            let distinction = above.filter_map(|uuid| distinct.get(&uuid)).max();
            let distinction = distinction.copied().unwrap_or(Distinction::None);
            let merged = distinction.uuid(*uuid, file, machine);
            if merged != *uuid {
                renumbered.insert(*uuid, merged);
            }
            self.0.entry(merged).or_insert(*track);
        }
        renumbered
    }

    fn distinction(&self, uuid: u64, track: &Identity, file: usize) -> Distinction {
        let is_free = |distinction: Distinction| {
            let other = self.0.get(&distinction.uuid(uuid, file, track.machine));
            other.is_none_or(|other| !track.contradicts(other))
        };
        match () {
            () if is_free(Distinction::None) => Distinction::None,
            () if track.machine > 0 && is_free(Distinction::OfMachine) => Distinction::OfMachine,
            () => Distinction::OfFile,
        }
    }
}

impl Distinction {
    /// Returns the uuid in the merged trace of a track with this uuid.
    fn uuid(self, uuid: u64, file: usize, machine: usize) -> u64 {
        match self {
            Self::None => uuid,
            Self::OfMachine => hash(("machine", machine, uuid)),
            Self::OfFile => hash(("file", file, uuid)),
        }
    }
}

impl Identity {
    /// Returns true if this track cannot be the same track as `other`.
    fn contradicts(&self, other: &Self) -> bool {
        fn differ<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            matches!((a, b), (Some(a), Some(b)) if a != b)
        }
        let is_of_system = self.pid.is_some() && other.pid.is_some();
        self.machine != other.machine
            || differ(self.pid, other.pid)
            || differ(self.tid, other.tid)
            || self.pid.is_some() != other.pid.is_some()
            // Threads and processes may change their names.
            || (!is_of_system && differ(self.name, other.name))
            || (!is_of_system && self.parent != other.parent)
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
