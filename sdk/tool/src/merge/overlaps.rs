//! Finds packets that several files have, so that the merged trace has them once.
//!
//! Two snapshots of one flight recorder overlap, for example. The ids of their sequences differ, and
//! so do the fields that the service has added, but the packets of a thread are the same and in the
//! same order. Most packets say little: the time since the packet before, and the number of a name.
//! So an *anchor* finds the place: a packet with a time of its own. From there, packets are compared
//! one by one in both directions, by hash.
//!
//! A *stretch* is a sequence in the merged trace, without gaps between files. It begins with the
//! packets of one file. Further files continue it: their packets build on those that both files
//! have, so they need the same sequence id, and must come later.

use std::collections::HashMap;

use super::duplicates::{PacketFacts, Part, SequenceMatcher};
use super::packet_hash::{anchor_time, hash};
use super::stretches::Stretches;
use super::survey::Survey;
use crate::error::ToolError;
use crate::packets::Packets;
use tracezero_reader::Packet;

/// What becomes of the packets of files that overlap.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// By file.
    pub(super) files: Vec<FileOverlap>,
    /// For each stretch, the file that begins it.
    pub(super) stretches: Vec<usize>,
    /// Pairs of files that have recorded the same process at the same time, and have no packet in
    /// common.
    pub(super) apart: Vec<(usize, usize, i32)>,
}

/// What becomes of the packets of one file.
#[derive(Debug, Default)]
pub(super) struct FileOverlap {
    /// The sequences that other files may have, too. All other sequences stay whole.
    pub(super) sequences: HashMap<u32, Vec<Part>>,
    /// The number of packets that earlier files have.
    pub(super) duplicates: u64,
    /// The files that must be written before this one, because it continues their sequences.
    pub(super) waits_for: Vec<usize>,
}

/// The process that recorded a sequence, if the trace tells.
type Process = Option<i32>;

/// The processes of a file, with the times of their first and last anchors.
type Spans = HashMap<Process, (u64, u64)>;

impl Overlaps {
    /// Finds the packets that several files have. `machine_of` returns the machine of a file. Reads
    /// only files that have recorded the same process at the same time.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or has too many packets to compare.
    pub(super) fn find(
        surveys: &[Survey],
        machine_of: impl Fn(usize) -> usize,
    ) -> Result<Self, ToolError> {
        let spans: Vec<Spans> = surveys.iter().map(spans).collect();
        let mut shared: Vec<Spans> = vec![Spans::new(); surveys.len()];
        let mut pairs = Vec::new();
        for later in 1..surveys.len() {
            for earlier in (0..later).filter(|file| machine_of(*file) == machine_of(later)) {
                for (process, span) in &spans[later] {
                    let Some(other) = spans[earlier].get(process) else {
                        continue;
                    };
                    if span.0.max(other.0) <= span.1.min(other.1) {
                        shared[later].insert(*process, *span);
                        shared[earlier].insert(*process, *other);
                        pairs.push((earlier, later, *process));
                    }
                }
            }
        }
        let mut found = Self {
            files: surveys.iter().map(|_| FileOverlap::default()).collect(),
            ..Self::default()
        };
        // A file that begins earlier has the packets that later ones build on.
        let begin = |file: &usize| shared[*file].values().map(|span| span.0).min();
        let mut order: Vec<usize> = (0..surveys.len())
            .filter(|file| begin(file).is_some())
            .collect();
        order.sort_by_key(|file| (begin(file), *file));
        let mut stretches = Stretches::default();
        for file in order {
            found.files[file] =
                FileOverlap::of(file, &surveys[file], &shared[file], &mut stretches)?;
        }
        found.stretches = stretches.begun_by();
        found.note_apart(surveys, pairs);
        if found.files.iter().all(|file| file.duplicates == 0) {
            found.files.clear();
        }
        Ok(found)
    }

    /// Notes the pairs of files that have no packet in common, if they are of one process indeed.
    fn note_apart(&mut self, surveys: &[Survey], pairs: Vec<(usize, usize, Process)>) {
        let has_duplicates = |file: usize| self.files[file].duplicates > 0;
        let apart = pairs.into_iter().filter_map(|(earlier, later, pid)| {
            let pid = pid?;
            let track = |file: usize| surveys[file].tracks.processes.get(&pid);
            let is_one_process = track(earlier).is_some() && track(earlier) == track(later);
            let is_apart = !has_duplicates(earlier) && !has_duplicates(later);
            (is_one_process && is_apart).then_some((earlier, later, pid))
        });
        self.apart = apart.collect();
        self.apart.sort_unstable();
    }
}

impl FileOverlap {
    /// Returns true if an earlier file has packets of the sequence.
    pub(super) fn has_duplicates(&self, sequence_id: u32) -> bool {
        let parts = self.sequences.get(&sequence_id);
        parts.is_some_and(|parts| parts.iter().any(|part| part.duplicates() > 0))
    }

    fn of(
        file: usize,
        survey: &Survey,
        shared: &Spans,
        stretches: &mut Stretches,
    ) -> Result<Self, ToolError> {
        let mut matchers: HashMap<u32, SequenceMatcher> = survey
            .sequences
            .iter()
            .filter(|(id, facts)| survey.is_of_writer(**id) && shared.contains_key(&facts.pid))
            .map(|(id, _)| (*id, SequenceMatcher::new(file)))
            .collect();
        let mut packets = Packets::open_quietly(&survey.path)?;
        while let Some(packet) = packets.next()? {
            let Ok(decoded) = Packet::decode(packet.bytes) else {
                continue;
            };
            let Some(matcher) = matchers.get_mut(&decoded.head.sequence_id) else {
                continue;
            };
            let facts = PacketFacts {
                hash: hash(packet.bytes),
                is_anchor: anchor_time(&decoded).is_some(),
                has_gap: decoded.head.previous_packet_dropped != 0,
                needs_state: decoded.head.needs_state(),
                clears_state: decoded.head.clears_state(),
            };
            let added = matcher.add(facts, stretches);
            added.map_err(|error| ToolError::Read {
                path: survey.path.clone(),
                message: error.to_string(),
            })?;
        }
        let mut overlap = Self::default();
        // The order of a map differs from run to run, and stretches are numbered in this order.
        let mut matchers: Vec<_> = matchers.into_iter().collect();
        matchers.sort_unstable_by_key(|(id, _)| *id);
        for (id, matcher) in matchers {
            let (parts, continued) = matcher.finish(stretches);
            overlap.duplicates += parts.iter().map(Part::duplicates).sum::<u64>();
            overlap.waits_for.extend(continued);
            overlap.sequences.insert(id, parts);
        }
        overlap.waits_for.sort_unstable();
        overlap.waits_for.dedup();
        Ok(overlap)
    }
}

/// Returns the processes of a file, with the times in which they have recorded.
fn spans(survey: &Survey) -> Spans {
    let mut spans = Spans::new();
    for (id, facts) in &survey.sequences {
        if !survey.is_of_writer(*id) {
            continue;
        }
        let Some((first, last)) = facts.anchors_ns else {
            continue;
        };
        let span = spans.entry(facts.pid).or_insert((first, last));
        *span = (span.0.min(first), span.1.max(last));
    }
    spans
}
