//! What the packets of a trace have said so far, and how the next one is read with it.

use crate::anomaly::Anomaly;
use crate::clocks::{BOOTTIME_CLOCK_ID, ClockError, GlobalClocks};
use crate::decode_event::EventTables;
use crate::event::{Event, EventHead};
use crate::fields;
use crate::iid_table::IidTable;
use crate::interning::Interned;
use crate::location::Locations;
use crate::names::NameTable;
use crate::packet::PacketHead;
use crate::packets::RawPacket;
use crate::place::PacketPlace;
use crate::record::{Loss, TrackRecord};
use crate::recordings::{RECORDING_BOUNDARY, Recordings};
use crate::sequence::Sequences;
use crate::skip_reason::SkipReason;
use crate::tracks::{Change, TrackId, TrackTable};
use tracezero_core::counter_value::CounterValue;

/// `previous_packet_dropped` with no cause. Some producers say so of the first packet of each sequence.
const LOSS_PRESENT: u32 = 1;

/// What packets so far have said.
#[derive(Debug, Default)]
pub(super) struct TraceState {
    pub(super) names: NameTable,
    pub(super) tracks: TrackTable,
    pub(super) sequences: Sequences,
    pub(super) clocks: GlobalClocks,
    pub(super) recordings: Recordings,
    locations: Locations,
    /// Those of the last event.
    extra_counters: Vec<(TrackId, CounterValue)>,
    /// What was noticed about the last packet.
    pub(super) anomalies: Vec<Anomaly>,
    no_iids: IidTable,
    last_event: EventHead,
}

/// What a packet is.
pub(super) enum Reading {
    /// An event, which is kept as the last one.
    Event,
    Track(TrackRecord),
    /// Something else, and its time.
    Other(Option<u64>),
    Skipped(SkipReason),
}

impl TraceState {
    /// The loss that a packet tells of.
    #[cold]
    pub(super) fn loss(&mut self, head: &PacketHead, place: PacketPlace) -> Option<Loss> {
        let is_at_start = self.sequences.get(head.sequence_id).packets == 0;
        let bits = head.previous_packet_dropped;
        (!is_at_start || bits != LOSS_PRESENT).then_some(Loss {
            place,
            sequence_id: head.sequence_id,
            bits,
            is_at_start,
        })
    }

    /// Reads a packet.
    #[inline]
    pub(super) fn read(&mut self, head: &PacketHead, packet: RawPacket<'_>) -> Reading {
        let sequence = self.sequences.get(head.sequence_id);
        if head.first_packet_on_sequence && sequence.packets > 0 {
            let packets = sequence.packets;
            let clears_state = head.clears_state();
            self.anomalies.push(Anomaly::NotTheFirst {
                packets,
                clears_state,
            });
        }
        sequence.packets += 1;
        sequence.last_packet = packet.place.index;
        if head.clears_state() {
            sequence.clear();
        } else if head.previous_packet_dropped != 0 {
            sequence.is_valid = false;
        }
        if let Some(field) = head.mistyped_field {
            self.anomalies.push(Anomaly::MistypedField { field });
        }
        if head.needs_state() && !sequence.is_valid {
            return Reading::Skipped(SkipReason::NeedsState);
        }
        if head.has_definitions() {
            self.define(head, packet);
            // There may have been no room for all that.
            if head.needs_state() && !self.sequences.get(head.sequence_id).is_valid {
                return Reading::Skipped(SkipReason::NeedsState);
            }
        }
        if head.payload_field == fields::TRACK_EVENT {
            return self.event(head, packet);
        }
        self.other(head, packet)
    }

    #[inline]
    fn event(&mut self, head: &PacketHead, packet: RawPacket<'_>) -> Reading {
        let timestamp_ns = match self.timestamp(head) {
            Ok(Some(timestamp_ns)) => timestamp_ns,
            Ok(None) => return Reading::Skipped(SkipReason::NoTime),
            Err(reason) => return Reading::Skipped(reason),
        };
        self.recordings.note_time(timestamp_ns);
        let mut tables = EventTables {
            sequence: self.sequences.get(head.sequence_id),
            names: &mut self.names,
            tracks: &mut self.tracks,
            extra_counters: &mut self.extra_counters,
            anomalies: &mut self.anomalies,
        };
        match tables.decode(head.payload.of(packet.bytes)) {
            Err(reason) => Reading::Skipped(reason),
            Ok(event) => {
                self.last_event = EventHead {
                    place: packet.place,
                    timestamp_ns,
                    kind: event.kind,
                    sequence_id: head.sequence_id,
                    track: event.track,
                    name: event.name,
                    category: event.category,
                };
                Reading::Event
            }
        }
    }

    /// The packet's time on the trace clock, by which an incremental clock moves on.
    #[inline]
    fn timestamp(&mut self, head: &PacketHead) -> Result<Option<u64>, SkipReason> {
        let Some(timestamp) = head.timestamp else {
            return Ok(None);
        };
        let sequence = self.sequences.get(head.sequence_id);
        let clock_id = head.timestamp_clock_id.or(sequence.default_clock_id);
        let clock_id = clock_id.unwrap_or(BOOTTIME_CLOCK_ID);
        let resolved =
            sequence
                .clocks
                .resolve(clock_id, timestamp, &self.clocks, &mut self.anomalies);
        resolved.map(Some).map_err(|error| match error {
            ClockError::Unknown { clock_id } => SkipReason::UnknownClock { clock_id },
            ClockError::OutOfRange { clock_id } => SkipReason::TimeOutOfRange { clock_id },
        })
    }

    /// Takes over what later packets of the sequence refer to.
    #[cold]
    fn define(&mut self, head: &PacketHead, packet: RawPacket<'_>) {
        let sequence = self.sequences.get(head.sequence_id);
        let defaults = head.defaults.of(packet.bytes);
        let interned_data = head.interned_data.of(packet.bytes);
        if !defaults.is_empty()
            && let Err(error) = sequence.set_defaults(defaults)
        {
            self.anomalies.push(Anomaly::Malformed {
                message: "trace_packet_defaults",
                error,
            });
        }
        // What was defined before the state is cleared does not count.
        if sequence.is_valid {
            sequence.iids.define(
                interned_data,
                &mut self.names,
                &mut self.locations,
                &mut self.anomalies,
            );
        } else if !interned_data.is_empty() {
            self.anomalies.push(Anomaly::DefinitionWithoutState);
        }
        self.sequences.settle();
    }

    #[inline(never)]
    fn other(&mut self, head: &PacketHead, packet: RawPacket<'_>) -> Reading {
        let payload = head.payload.of(packet.bytes);
        if head.payload_field == fields::CLOCK_SNAPSHOT {
            // The time of a snapshot is in its clocks.
            let sequence = self.sequences.get(head.sequence_id);
            let own = (head.sequence_id != 0).then_some(&mut sequence.clocks);
            self.clocks.add(payload, own, &mut self.anomalies);
            return Reading::Other(None);
        }
        let timestamp_ns = self.timestamp(head);
        if let Ok(Some(timestamp_ns)) = timestamp_ns {
            self.recordings.note_time(timestamp_ns);
            if head.payload_field == RECORDING_BOUNDARY {
                self.recordings.add(payload, timestamp_ns);
            }
        }
        if head.payload_field != fields::TRACK_DESCRIPTOR {
            return match timestamp_ns {
                Ok(timestamp_ns) => Reading::Other(timestamp_ns),
                Err(_) => Reading::Other(None),
            };
        }
        match self.tracks.describe(payload, &mut self.names) {
            Err(reason) => Reading::Skipped(reason),
            Ok(None) => {
                self.anomalies.push(Anomaly::NoTrackUuid);
                Reading::Other(None)
            }
            Ok(Some((_, Change::None))) => Reading::Other(None),
            Ok(Some((track, change))) => Reading::Track(TrackRecord {
                place: packet.place,
                sequence_id: head.sequence_id,
                track,
                is_changed: change == Change::Changed,
            }),
        }
    }

    /// The event that was read last, whose message is in `bytes`.
    #[inline]
    pub(super) fn last_event<'a>(&'a self, bytes: &'a [u8]) -> Event<'a> {
        let sequence = self.sequences.current();
        Event {
            head: self.last_event,
            extra_counters: &self.extra_counters,
            bytes,
            names: &self.names,
            tracks: &self.tracks,
            interned: Interned {
                iids: sequence.map_or(&self.no_iids, |sequence| &sequence.iids),
                locations: &self.locations,
            },
        }
    }
}
