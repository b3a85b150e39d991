//! Gives packets the ids that they have in the merged trace.

use std::collections::{HashMap, HashSet};

use protozero::{DecodeError, Field, Value};
use tracezero_core::protos::TracingServiceEventDecoder;

use super::fields::{append_mapped, append_message, append_varint_field, copy_fields};

/// Fields of a `TracePacket`.
mod packet {
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const TRACE_CONFIG: u32 = 33;
    pub(super) const TRACE_STATS: u32 = 35;
    pub(super) const SYSTEM_INFO: u32 = 45;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const SERVICE_EVENT: u32 = 69;
    pub(super) const TRACE_UUID: u32 = 89;
    pub(super) const TRACE_PROVENANCE: u32 = 124;
    pub(super) const SEQUENCE_ACCOUNTS: u32 = tracezero_reader::Losses::ACCOUNTS_FIELD_NUMBER;

    /// The fields of packets that describe a recording as a whole.
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
}

impl SequenceIds {
    /// Creates an allocator that avoids `kept`, the ids of the first file, which stay the same.
    pub(super) fn reserving(kept: &HashSet<u32>) -> Self {
        Self {
            used: kept.clone(),
            next: SERVICE + 1,
        }
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
}

/// Rewrites the packets of one file.
#[derive(Debug)]
pub(super) struct Rewriter {
    renumbering: Renumbering,
    sequences: HashMap<u32, u32>,
    packet: Vec<u8>,
}

impl Rewriter {
    pub(super) fn new(renumbering: Renumbering) -> Self {
        let service = renumbering.shares_service.then_some((SERVICE, SERVICE));
        // Packets without a sequence stay without one.
        let kept = [(0, 0)].into_iter().chain(service);
        Self {
            renumbering,
            sequences: kept.collect(),
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
        let Self {
            renumbering,
            sequences,
            packet: out,
        } = self;
        out.clear();
        let mut is_kept = true;
        copy_fields(bytes, out, |field, out| {
            match (field.number, field.value) {
                (packet::SEQUENCE_ID, Value::Varint(id)) if !renumbering.is_first => {
                    let id = merged_id(id as u32, sequences, ids);
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
                (packet::SEQUENCE_ACCOUNTS, Value::Bytes(accounts)) if !renumbering.is_first => {
                    append_message(field.number, out, |out| {
                        copy_accounts(accounts, out, |id| merged_id(id, sequences, ids))
                    })?;
                }
                (number, _) => {
                    is_kept &= renumbering.is_first || !packet::OF_RECORDING.contains(&number);
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(is_kept.then_some(self.packet.as_slice()))
    }
}

impl Renumbering {
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

/// Returns the id that a sequence has in the merged trace.
fn merged_id(id: u32, sequences: &mut HashMap<u32, u32>, ids: &mut SequenceIds) -> u32 {
    *sequences.entry(id).or_insert_with(|| ids.take())
}

fn copy_accounts(
    accounts: &[u8],
    out: &mut Vec<u8>,
    mut merged_id: impl FnMut(u32) -> u32,
) -> Result<(), DecodeError> {
    copy_fields(accounts, out, |field, out| {
        let Field {
            number: ACCOUNT,
            value: Value::Bytes(account),
        } = field
        else {
            return Ok(false);
        };
        append_message(ACCOUNT, out, |out| {
            copy_fields(account, out, |field, out| {
                let Field {
                    number: ACCOUNT_SEQUENCE_ID,
                    value: Value::Varint(id),
                } = field
                else {
                    return Ok(false);
                };
                append_varint_field(ACCOUNT_SEQUENCE_ID, merged_id(id as u32).into(), out);
                Ok(true)
            })
        })?;
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
