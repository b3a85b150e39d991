//! The state that the packets of a trace have built up, and how the next packet is decoded with it.

use crate::anomaly::Anomaly;
use crate::clocks::{BOOTTIME_CLOCK_ID, ClockError, GlobalClocks};
use crate::decode_event::EventTables;
use crate::event::{Event, EventHead};
use crate::fields;
use crate::identity::TraceIdentities;
use crate::iid_table::IidTable;
use crate::interning::Interned;
use crate::location::Locations;
use crate::machines::Machines;
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

/// The value of `previous_packet_dropped` that names no cause. Some producers set it on the first
/// packet of each sequence.
const LOSS_PRESENT: u32 = 1;

/// The state that the packets so far have built up.
#[derive(Debug, Default)]
pub(super) struct TraceState {
    pub(super) names: NameTable,
    pub(super) tracks: TrackTable,
    pub(super) sequences: Sequences,
    /// The clocks of the service's machine.
    pub(super) clocks: GlobalClocks,
    machines: Machines,
    pub(super) recordings: Recordings,
    pub(super) identities: TraceIdentities,
    locations: Locations,
    /// The extra counters of the last event.
    extra_counters: Vec<(TrackId, CounterValue)>,
    /// The faults found in the last packet.
    pub(super) anomalies: Vec<Anomaly>,
    no_iids: IidTable,
    last_event: EventHead,
    /// True if the last event has nothing but its head.
    last_is_plain: bool,
}

/// The content of a packet.
pub(super) enum PacketContent {
    /// An event, which is stored as `last_event`.
    Event,
    Track(TrackRecord),
    /// Other data, with the packet's time.
    Other(Option<u64>),
    Skipped(SkipReason),
}

impl TraceState {
    /// Returns the loss that a packet reports. Returns `None` for [`LOSS_PRESENT`] on the first
    /// packet of a sequence, where it need not mean a loss.
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
    pub(super) fn read(&mut self, head: &PacketHead, packet: RawPacket<'_>) -> PacketContent {
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
            return PacketContent::Skipped(SkipReason::NeedsState);
        }
        if head.has_definitions() {
            self.define(head, packet);
            // Room for the definitions may have run out, which makes the state invalid.
            if head.needs_state() && !self.sequences.get(head.sequence_id).is_valid {
                return PacketContent::Skipped(SkipReason::NeedsState);
            }
        }
        if head.payload_field == fields::TRACK_EVENT {
            return self.event(head, packet);
        }
        self.other(head, packet)
    }

    #[inline]
    fn event(&mut self, head: &PacketHead, packet: RawPacket<'_>) -> PacketContent {
        let timestamp_ns = match self.timestamp(head) {
            Ok(Some(timestamp_ns)) => timestamp_ns,
            Ok(None) => return PacketContent::Skipped(SkipReason::NoTime),
            Err(reason) => return PacketContent::Skipped(reason),
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
            Err(reason) => PacketContent::Skipped(reason),
            Ok(event) => {
                self.last_is_plain = event.is_plain && self.anomalies.is_empty();
                self.last_event = EventHead {
                    place: packet.place,
                    timestamp_ns,
                    kind: event.kind,
                    sequence_id: head.sequence_id,
                    track: event.track,
                    name: event.name,
                    category: event.category,
                };
                PacketContent::Event
            }
        }
    }

    /// Returns the packet's time on the trace clock. The timestamp of an incremental clock advances
    /// that clock.
    #[inline]
    fn timestamp(&mut self, head: &PacketHead) -> Result<Option<u64>, SkipReason> {
        let Some(timestamp) = head.timestamp else {
            return Ok(None);
        };
        let sequence = self.sequences.get(head.sequence_id);
        let clock_id = head.timestamp_clock_id.or(sequence.default_clock_id);
        let clock_id = clock_id.unwrap_or(BOOTTIME_CLOCK_ID);
        let resolved = match head.machine_id {
            None | Some(0) => {
                sequence
                    .clocks
                    .resolve(clock_id, timestamp, &self.clocks, &mut self.anomalies)
            }
            Some(machine_id) => self.remote_timestamp(head, machine_id, clock_id, timestamp),
        };
        resolved.map(Some).map_err(|error| match error {
            ClockError::Unknown { clock_id } => SkipReason::UnknownClock { clock_id },
            ClockError::OutOfRange { clock_id } => SkipReason::TimeOutOfRange { clock_id },
        })
    }

    /// Returns the time of another machine's packet on the trace clock.
    #[inline(never)]
    fn remote_timestamp(
        &mut self,
        head: &PacketHead,
        machine_id: u32,
        clock_id: u32,
        timestamp: u64,
    ) -> Result<u64, ClockError> {
        let machine = self.machines.get(machine_id);
        let machine = machine.ok_or(ClockError::Unknown { clock_id })?;
        let clocks = &mut self.sequences.get(head.sequence_id).clocks;
        let boot_ns = clocks.resolve(clock_id, timestamp, &machine.clocks, &mut self.anomalies)?;
        machine.to_trace_ns(boot_ns, &self.clocks)
    }

    /// Adds the packet's defaults and interned data, which later packets of the sequence refer to.
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
        // Definitions made before the state is cleared do not count.
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
        self.sequences.update_size();
    }

    #[inline(never)]
    fn other(&mut self, head: &PacketHead, packet: RawPacket<'_>) -> PacketContent {
        let payload = head.payload.of(packet.bytes);
        if head.payload_field == fields::CLOCK_SNAPSHOT {
            // A clock snapshot has no timestamp of its own: its time is in its clocks.
            let sequence = self.sequences.get(head.sequence_id);
            let own = (head.sequence_id != 0).then_some(&mut sequence.clocks);
            let clocks = match head.machine_id {
                None | Some(0) => Some(&mut self.clocks),
                Some(id) => self.machines.get(id).map(|machine| &mut machine.clocks),
            };
            if let Some(clocks) = clocks {
                clocks.add(payload, own, &mut self.anomalies);
            }
            return PacketContent::Other(None);
        }
        if head.payload_field == fields::REMOTE_CLOCK_SYNC
            && let Some(id @ 1..) = head.machine_id
            && let Some(machine) = self.machines.get(id)
        {
            machine.add_sync(payload, &mut self.anomalies);
            return PacketContent::Other(None);
        }
        self.identities
            .add_payload(head.machine_id, head.payload_field, payload);
        let timestamp_ns = self.timestamp(head);
        if let Ok(Some(timestamp_ns)) = timestamp_ns {
            self.recordings.note_time(timestamp_ns);
            if head.payload_field == RECORDING_BOUNDARY {
                self.recordings.add(payload, timestamp_ns);
            }
        }
        if head.payload_field != fields::TRACK_DESCRIPTOR {
            return match timestamp_ns {
                Ok(timestamp_ns) => PacketContent::Other(timestamp_ns),
                Err(_) => PacketContent::Other(None),
            };
        }
        let machine_id = head.machine_id.unwrap_or_default();
        match self.tracks.describe(machine_id, payload, &mut self.names) {
            Err(reason) => PacketContent::Skipped(reason),
            Ok(None) => {
                self.anomalies.push(Anomaly::NoTrackUuid);
                PacketContent::Other(None)
            }
            Ok(Some((_, Change::None))) => PacketContent::Other(None),
            Ok(Some((track, change))) => PacketContent::Track(TrackRecord {
                place: packet.place,
                sequence_id: head.sequence_id,
                track,
                is_changed: change == Change::Changed,
            }),
        }
    }

    /// Returns the event that was read last. `bytes` is its encoded `TrackEvent`.
    #[inline]
    pub(super) fn last_event<'a>(&'a self, bytes: &'a [u8]) -> Event<'a> {
        let sequence = self.sequences.current();
        Event {
            head: self.last_event,
            is_plain: self.last_is_plain,
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
