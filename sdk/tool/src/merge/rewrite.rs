//! Gives packets the ids that they have in the merged trace.

use std::collections::{HashMap, HashSet};

use protozero::{DecodeError, Field, Value};
use tracezero_core::protos::TracingServiceEventDecoder;
use tracezero_reader::Packet;

use super::fields::{append_mapped, append_message, append_varint_field, copy_fields};
use super::host::TRACE_ATTRIBUTES;
use super::overlaps::{FileOverlap, Overlaps};

/// Fields of a `TracePacket`.
pub(super) mod packet {
    pub(in super::super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const TRACE_CONFIG: u32 = 33;
    pub(super) const TRACE_STATS: u32 = 35;
    pub(in super::super) const SYSTEM_INFO: u32 = 45;
    pub(in super::super) const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const SERVICE_EVENT: u32 = 69;
    pub(super) const TRACE_UUID: u32 = 89;
    pub(in super::super) const MACHINE_ID: u32 = 98;
    pub(in super::super) const REMOTE_CLOCK_SYNC: u32 = 107;
    pub(super) const TRACE_PROVENANCE: u32 = 124;
    pub(super) const SEQUENCE_ACCOUNTS: u32 = tracezero_reader::Losses::ACCOUNTS_FIELD_NUMBER;

    /// The fields of packets that describe a recording as a whole. Attributes are not among them: each
    /// file tells which service it comes from.
    pub(super) const OF_RECORDING: [u32; 5] = [
        TRACE_CONFIG,
        TRACE_STATS,
        SYSTEM_INFO,
        TRACE_UUID,
        TRACE_PROVENANCE,
    ];
}

/// The id of the service's own sequence.
pub(super) const SERVICE: u32 = 1;

/// The fields of a `TrackDescriptor` that contain track uuids.
const DESCRIPTOR_TRACKS: [u32; 2] = [1, 5];
/// The fields of a `TrackEvent`, and of its defaults, that contain track uuids.
const EVENT_TRACKS: [u32; 3] = [11, 31, 45];
/// `TracePacketDefaults.track_event_defaults`.
const EVENT_DEFAULTS: u32 = 11;
/// `SequenceAccounts.sequences`, and `SequenceAccount.sequence_id`.
const ACCOUNT: u32 = 1;
const ACCOUNT_SEQUENCE_ID: u32 = 1;

/// Allocates sequence ids of the merged trace.
#[derive(Debug)]
pub(super) struct SequenceIds {
    used: HashSet<u32>,
    next: u32,
    /// The ids of stretches, by index.
    stretches: Vec<Option<u32>>,
}

impl SequenceIds {
    /// Creates an allocator that avoids `kept`, the ids of the first file, which stay the same. So do
    /// those of stretches that it begins.
    pub(super) fn reserving(kept: impl Iterator<Item = u32>, overlaps: &Overlaps) -> Self {
        let mut stretches = vec![None; overlaps.stretches.len()];
        let first = overlaps.files.first();
        for (id, parts) in first.iter().flat_map(|file| &file.sequences) {
            let mut begun = parts.iter().filter_map(|part| part.stretch);
            if let Some(index) = begun.find(|index| overlaps.stretches.get(*index) == Some(&0)) {
                stretches[index] = Some(*id);
            }
        }
        Self {
            used: kept.collect(),
            next: SERVICE + 1,
            stretches,
        }
    }

    /// Returns the id of a stretch.
    fn of_stretch(&mut self, index: usize) -> u32 {
        if let Some(Some(id)) = self.stretches.get(index) {
            return *id;
        }
        let id = self.take();
        if let Some(place) = self.stretches.get_mut(index) {
            *place = Some(id);
        }
        id
    }

    fn take(&mut self) -> u32 {
        while !self.used.insert(self.next) {
            self.next = self.next.wrapping_add(1).max(SERVICE + 1);
        }
        self.next
    }
}

/// The changes to the ids of one file.
#[derive(Debug)]
pub(super) struct Renumbering {
    /// True for the first file: it keeps its sequence ids, and describes the recording.
    pub(super) is_first: bool,
    /// True if the packets of all files' services are put on one sequence, [`SERVICE`]. They can
    /// share it, because packets of a service do not depend on each other. False if an ordinary
    /// writer has this id in one of the files.
    pub(super) shares_service: bool,
    pub(super) tracks: HashMap<u64, u64>,
    /// The id of the machine; 0 for the first one.
    pub(super) machine_id: u32,
    /// True if the file describes its machine: it is the first of this machine.
    pub(super) describes_machine: bool,
    /// The packets that other files have, too.
    pub(super) overlap: FileOverlap,
}

/// Rewrites the packets of one file.
#[derive(Debug)]
pub(super) struct Rewriter {
    renumbering: Renumbering,
    sequences: HashMap<u32, u32>,
    /// How far the sequences that overlap with other files have been read.
    progress: HashMap<u32, Progress>,
    packet: Vec<u8>,
}

/// How far a sequence has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    part: usize,
    /// The number of packets of the part that were read.
    packets: u64,
}

impl Rewriter {
    pub(super) fn new(renumbering: Renumbering) -> Self {
        let service = renumbering.shares_service.then_some((SERVICE, SERVICE));
        // Packets without a sequence stay without one.
        let kept = [(0, 0)].into_iter().chain(service);
        Self {
            renumbering,
            sequences: kept.collect(),
            progress: HashMap::new(),
            packet: Vec::new(),
        }
    }

    /// Returns a packet with the ids of the merged trace; `None` if it is left out.
    ///
    /// # Errors
    ///
    /// If the packet is malformed.
    pub(super) fn rewrite(
        &mut self,
        bytes: &[u8],
        ids: &mut SequenceIds,
    ) -> Result<Option<&[u8]>, DecodeError> {
        if !self.renumbering.overlap.sequences.is_empty() && !self.enter_part(bytes, ids)? {
            return Ok(None);
        }
        let Self {
            renumbering,
            sequences,
            packet: out,
            ..
        } = self;
        out.clear();
        let mut is_kept = true;
        copy_fields(bytes, out, |field, out| {
            match (field.number, field.value) {
                (packet::SEQUENCE_ID, Value::Varint(id)) if renumbering.has_new_ids() => {
                    let id = renumbering.merged_id(id as u32, sequences, ids);
                    append_varint_field(packet::SEQUENCE_ID, id.into(), out);
                }
                (packet::SERVICE_EVENT, Value::Bytes(event)) => {
                    is_kept &= !is_of_one_file(TracingServiceEventDecoder::new(event))?;
                    return Ok(false);
                }
                (packet::TRACK_EVENT, Value::Bytes(event)) if renumbering.has_tracks() => {
                    append_message(field.number, out, |out| {
                        renumbering.copy_tracks(event, &EVENT_TRACKS, out)
                    })?;
                }
                (packet::TRACK_DESCRIPTOR, Value::Bytes(track)) if renumbering.has_tracks() => {
                    append_message(field.number, out, |out| {
                        renumbering.copy_tracks(track, &DESCRIPTOR_TRACKS, out)
                    })?;
                }
                (packet::DEFAULTS, Value::Bytes(defaults)) if renumbering.has_tracks() => {
                    append_message(field.number, out, |out| {
                        renumbering.copy_defaults(defaults, out)
                    })?;
                }
                (packet::SEQUENCE_ACCOUNTS, Value::Bytes(accounts))
                    if renumbering.has_new_ids() =>
                {
                    append_message(field.number, out, |out| {
                        copy_accounts(accounts, out, |id| {
                            let is_whole = !renumbering.overlap.has_duplicates(id);
                            is_whole.then(|| renumbering.merged_id(id, sequences, ids))
                        })
                    })?;
                }
                (packet::SYSTEM_INFO, _) if renumbering.describes_machine => return Ok(false),
                (TRACE_ATTRIBUTES, _) => {
                    // The introduction of another machine has those of its first file.
                    is_kept &= renumbering.is_first || !renumbering.describes_machine;
                    return Ok(false);
                }
                (number, _) => {
                    is_kept &= renumbering.is_first || !packet::OF_RECORDING.contains(&number);
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        if renumbering.machine_id != 0 {
            append_varint_field(packet::MACHINE_ID, renumbering.machine_id.into(), out);
        }
        Ok(is_kept.then_some(self.packet.as_slice()))
    }

    /// Finds the part of its sequence that a packet is in, and the id of this part. Returns false if
    /// an earlier file has the packet.
    fn enter_part(&mut self, packet: &[u8], ids: &mut SequenceIds) -> Result<bool, DecodeError> {
        let id = Packet::decode(packet)?.head.sequence_id;
        let Some(parts) = self.renumbering.overlap.sequences.get(&id) else {
            return Ok(true);
        };
        let progress = self.progress.entry(id).or_default();
        while let Some(part) = parts.get(progress.part) {
            if progress.packets == part.packets {
                *progress = Progress {
                    part: progress.part + 1,
                    packets: 0,
                };
                continue;
            }
            progress.packets += 1;
            let Some(stretch) = part.stretch else {
                return Ok(false);
            };
            self.sequences.insert(id, ids.of_stretch(stretch));
            return Ok(true);
        }
        Ok(true)
    }
}

impl Renumbering {
    /// Returns true if sequences may get new ids.
    fn has_new_ids(&self) -> bool {
        !self.is_first || !self.overlap.sequences.is_empty()
    }

    /// Returns the id that a sequence has in the merged trace.
    fn merged_id(&self, id: u32, sequences: &mut HashMap<u32, u32>, ids: &mut SequenceIds) -> u32 {
        let new = || if self.is_first { id } else { ids.take() };
        *sequences.entry(id).or_insert_with(new)
    }

    fn has_tracks(&self) -> bool {
        !self.tracks.is_empty()
    }

    /// Copies a message whose fields `numbers` contain track uuids.
    fn copy_tracks(
        &self,
        message: &[u8],
        numbers: &[u32],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        copy_fields(message, out, |field, out| {
            let is_track = numbers.contains(&field.number);
            if is_track {
                append_mapped(field, out, |uuid| {
                    self.tracks.get(&uuid).copied().unwrap_or(uuid)
                })?;
            }
            Ok(is_track)
        })
    }

    fn copy_defaults(&self, defaults: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        copy_fields(defaults, out, |field, out| {
            let Field {
                number: EVENT_DEFAULTS,
                value: Value::Bytes(events),
            } = field
            else {
                return Ok(false);
            };
            append_message(EVENT_DEFAULTS, out, |out| {
                self.copy_tracks(events, &EVENT_TRACKS, out)
            })?;
            Ok(true)
        })
    }
}

/// Copies accounts of sequences. Leaves out those of sequences for which `merged_id` returns `None`.
fn copy_accounts(
    accounts: &[u8],
    out: &mut Vec<u8>,
    mut merged_id: impl FnMut(u32) -> Option<u32>,
) -> Result<(), DecodeError> {
    copy_fields(accounts, out, |field, out| {
        let Field {
            number: ACCOUNT,
            value: Value::Bytes(account),
        } = field
        else {
            return Ok(false);
        };
        let start = out.len();
        let mut is_kept = true;
        append_message(ACCOUNT, out, |out| {
            copy_fields(account, out, |field, out| {
                let Field {
                    number: ACCOUNT_SEQUENCE_ID,
                    value: Value::Varint(id),
                } = field
                else {
                    return Ok(false);
                };
                match merged_id(id as u32) {
                    Some(id) => append_varint_field(ACCOUNT_SEQUENCE_ID, id.into(), out),
                    None => is_kept = false,
                }
                Ok(true)
            })
        })?;
        if !is_kept {
            out.truncate(start);
        }
        Ok(true)
    })
}

/// Returns true if an event of the service promises something about the order of packets, which
/// holds only within one file.
fn is_of_one_file(event: TracingServiceEventDecoder<'_>) -> Result<bool, DecodeError> {
    Ok(event.all_data_sources_flushed()?.is_some()
        || event.read_tracing_buffers_completed()?.is_some()
        || event.flush_started()?.is_some())
}
