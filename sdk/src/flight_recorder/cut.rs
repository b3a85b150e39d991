//! Writes the parts of a recording as one trace that begins at a given time.
//!
//! Packets depend on earlier ones of their sequence: they use its interned names, and count time
//! from the packet before. So a sequence can begin only where it clears its incremental state and
//! defines everything anew. Each sequence is cut at the last such place before its first wanted
//! event, so no wanted event is missing, and the rest reads like the content of a ring. A sequence
//! without a wanted event is left out. A sequence that never clears its state, like those of most
//! custom data sources, stays whole.
//!
//! Packets that depend on missing packets are left out as well, because readers could not decode
//! them. These are the oldest packets of a ring that has wrapped around. The statistics in the
//! trace count what was overwritten.
//!
//! So the trace can be read by itself, from its first event on. The tests in
//! `sdk/tests/flight_recorder/` check every file.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use protozero::{Decoder, HeapBuffered, Value};

use tracezero_core::clock::BUILTIN_CLOCK_BOOTTIME;
use tracezero_core::crash_files::PartFile;
use tracezero_core::protos::trace_packet::SequenceFlags;
use tracezero_core::protos::{Trace, TracePacket, TracePacketDecoder};
use tracezero_service::SERVICE_SEQUENCE_ID;

/// The packets that were recorded after the previous part was taken.
#[derive(Debug)]
pub(super) struct Part {
    /// The packets, as a trace.
    pub(super) trace: Vec<u8>,
    /// The time when the part was taken, on the trace clock.
    pub(super) taken_at_ns: u64,
    /// The copy of the packets that survives the process, as long as the part is kept.
    pub(super) _crash_file: Option<PartFile>,
}

/// Writes consecutive parts as one trace. The service's own packets are those of the last part.
/// Events before `from_ns` on the trace clock are left out as far as possible.
pub(super) fn write_trace(
    parts: &[Arc<Part>],
    from_ns: Option<u64>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut cuts = from_ns.map_or_else(Cuts::default, |from_ns| Cuts::of(parts, from_ns));
    let Some((last, earlier)) = parts.split_last() else {
        return Ok(());
    };
    // The service's first packets say how to read the trace, and hold for earlier parts, too. A state is
    // that before the packets of its part; readers take the first one.
    let mut rest = packets(&last.trace).peekable();
    let mut last_states = Vec::new();
    while let Some(packet) = rest.next_if(Packet::is_of_service) {
        match packet.has_states() {
            true => last_states.push(packet),
            false => out.write_all(packet.framed)?,
        }
    }
    for (number, part) in earlier.iter().enumerate() {
        for packet in packets(&part.trace) {
            if packet.has_states() {
                out.write_all(packet.framed)?;
            } else if !packet.is_of_service() {
                cuts.write(number, &packet, out)?;
            }
        }
    }
    for packet in last_states.into_iter().chain(rest) {
        cuts.write(earlier.len(), &packet, out)?;
    }
    Ok(())
}

/// A packet of a part.
struct Packet<'p> {
    /// The offset in the part.
    offset: usize,
    /// The packet with its tag and length.
    framed: &'p [u8],
    content: &'p [u8],
    sequence_id: u32,
}

impl Packet<'_> {
    fn is_of_service(&self) -> bool {
        self.sequence_id == SERVICE_SEQUENCE_ID
    }

    /// Returns true for a packet with the states of packets that a ring has overwritten.
    fn has_states(&self) -> bool {
        self.is_of_service() && matches!(self.decoder().protovms(), Ok(Some(_)))
    }

    fn decoder(&self) -> TracePacketDecoder<'_> {
        TracePacketDecoder::new(self.content)
    }
}

/// Returns the packets of a trace that this process wrote.
fn packets(trace: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    let mut fields = Decoder::new(trace).fields();
    std::iter::from_fn(move || {
        let offset = fields.offset();
        let field = fields.next()?.ok()?;
        let Value::Bytes(content) = field.value else {
            return None;
        };
        let decoder = TracePacketDecoder::new(content);
        Some(Packet {
            offset,
            framed: &trace[offset..fields.offset()],
            content,
            sequence_id: decoder.trusted_packet_sequence_id().ok()??,
        })
    })
}

/// The place where each sequence begins, by sequence id.
#[derive(Default)]
struct Cuts {
    sequences: HashMap<u32, SequenceCut>,
    /// The time before which events may be left out; 0 if nothing is left out.
    from_ns: u64,
}

struct SequenceCut {
    /// The place where the sequence last cleared its state before its first wanted event: the index
    /// of the part, and the offset there. `None` if there is none.
    started_at: Option<(usize, usize)>,
    /// True if a wanted event was found. The sequence then begins at `started_at`.
    is_wanted: bool,
    clock: SequenceClock,
    /// True if the incremental state that the sequence's packets need was written.
    is_readable: bool,
    /// Facts from packets that were left out, to be added to the next packet that is written.
    pending: SequenceFacts,
}

/// The clock that the packets of a sequence use by default.
struct SequenceClock {
    /// The id of the clock; `None` if it is unknown.
    id: Option<u32>,
    unit_ns: u64,
    is_incremental: bool,
    /// The value of the clock at the sequence's start.
    start_units: u64,
    /// The time on the trace clock at the sequence's start or, if the clock is incremental, of the
    /// last packet.
    now_ns: u64,
}

impl Cuts {
    fn of(parts: &[Arc<Part>], from_ns: u64) -> Self {
        let mut cuts = Self {
            from_ns,
            ..Self::default()
        };
        for (number, part) in parts.iter().enumerate() {
            for packet in packets(&part.trace).filter(|packet| !packet.is_of_service()) {
                cuts.look_at(number, &packet);
            }
        }
        cuts
    }

    fn look_at(&mut self, part: usize, packet: &Packet<'_>) {
        let sequence = self.sequences.entry(packet.sequence_id).or_default();
        if sequence.is_wanted {
            return;
        }
        let decoder = packet.decoder();
        let starts_anew = sequence_flags(&decoder) & SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0;
        if starts_anew != 0 {
            sequence.clock = SequenceClock::of_start(&decoder);
            sequence.started_at = Some((part, packet.offset));
        }
        sequence.is_wanted = match sequence.clock.time_of(&decoder) {
            Time::At(time_ns) => time_ns >= self.from_ns,
            Time::Unknown => true,
            Time::None => false,
        };
    }

    /// Writes the packet, unless it is to be left out.
    fn write(&mut self, part: usize, packet: &Packet<'_>, out: &mut impl Write) -> io::Result<()> {
        let sequence = self.sequences.entry(packet.sequence_id).or_default();
        let decoder = packet.decoder();
        let mut says = SequenceFacts::by(&decoder);
        // `started_at` is `None`, and so this is false, if nothing is to be cut.
        let is_before = sequence
            .started_at
            .is_some_and(|started_at| !sequence.is_wanted || (part, packet.offset) < started_at);
        let flags = sequence_flags(&decoder);
        let starts_anew = flags & SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 != 0;
        let builds_on_others = flags & SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 != 0;
        if starts_anew {
            sequence.is_readable = !is_before;
        } else if says.loss != 0 {
            // After a loss, readers drop the sequence's state.
            sequence.is_readable = false;
        }
        if is_before || (builds_on_others && !sequence.is_readable) {
            if is_before {
                // A loss before the sequence's begin does not matter.
                says.loss = 0;
            }
            sequence.pending.add(says);
            return Ok(());
        }
        let pending = std::mem::take(&mut sequence.pending);
        if pending == SequenceFacts::default() {
            return out.write_all(packet.framed);
        }
        let mut all = pending;
        all.add(says);
        out.write_all(&all.with(packet.content))
    }
}

/// Facts that a sequence states only once, and facts about earlier packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SequenceFacts {
    uid: Option<i32>,
    pid: Option<i32>,
    /// The causes why packets before are missing, as bits.
    loss: u32,
}

impl SequenceFacts {
    fn by(packet: &TracePacketDecoder<'_>) -> Self {
        Self {
            uid: packet.trusted_uid().ok().flatten(),
            pid: packet.trusted_pid().ok().flatten(),
            loss: packet.previous_packet_dropped().ok().flatten().unwrap_or(0),
        }
    }

    fn add(&mut self, later: Self) {
        self.uid = later.uid.or(self.uid);
        self.pid = later.pid.or(self.pid);
        self.loss |= later.loss;
    }

    /// Returns the packet with these facts appended, framed. If a field occurs twice, readers use
    /// the later one.
    fn with(self, content: &[u8]) -> Vec<u8> {
        let mut buffer = HeapBuffered::<Trace<'_>>::new();
        buffer.message().add_packet(|packet: &mut TracePacket<'_>| {
            packet.as_message_mut().append_raw(content);
            if let Some(uid) = self.uid {
                packet.set_trusted_uid(uid);
            }
            if let Some(pid) = self.pid {
                packet.set_trusted_pid(pid);
            }
            if self.loss != 0 {
                packet.set_previous_packet_dropped(self.loss);
            }
        });
        buffer.to_vec()
    }
}

impl Default for SequenceCut {
    fn default() -> Self {
        Self {
            started_at: None,
            is_wanted: false,
            clock: SequenceClock::unknown(),
            is_readable: false,
            pending: SequenceFacts::default(),
        }
    }
}

/// The time of a packet.
enum Time {
    At(u64),
    /// The packet's time cannot be converted.
    Unknown,
    /// The packet has no timestamp.
    None,
}

impl SequenceClock {
    const fn unknown() -> Self {
        Self {
            id: None,
            unit_ns: 1,
            is_incremental: false,
            start_units: 0,
            now_ns: 0,
        }
    }

    /// Reads the clock from the packet at which a sequence starts.
    fn of_start(packet: &TracePacketDecoder<'_>) -> Self {
        let default_id = || {
            packet
                .trace_packet_defaults()
                .ok()??
                .timestamp_clock_id()
                .ok()?
        };
        let Some(id) = default_id() else {
            return Self::unknown();
        };
        let mut clock = Self {
            id: Some(id),
            ..Self::unknown()
        };
        // This clock needs no definition.
        if id == BUILTIN_CLOCK_BOOTTIME {
            return clock;
        }
        let Ok(Some(snapshot)) = packet.clock_snapshot() else {
            return Self::unknown();
        };
        for shown in snapshot.clocks().filter_map(Result::ok) {
            let value = shown.timestamp().ok().flatten().unwrap_or(0);
            match shown.clock_id() {
                Ok(Some(BUILTIN_CLOCK_BOOTTIME)) => clock.now_ns = value,
                Ok(Some(shown_id)) if shown_id == id => {
                    clock.is_incremental = shown.is_incremental() == Ok(Some(true));
                    clock.unit_ns = shown.unit_multiplier_ns().ok().flatten().unwrap_or(1);
                    clock.start_units = value;
                }
                _ => {}
            }
        }
        clock
    }

    /// Returns the time of a packet. Must be called for every packet, because time deltas add up.
    fn time_of(&mut self, packet: &TracePacketDecoder<'_>) -> Time {
        let Ok(Some(timestamp)) = packet.timestamp() else {
            return Time::None;
        };
        match packet.timestamp_clock_id().ok().flatten().or(self.id) {
            Some(BUILTIN_CLOCK_BOOTTIME) => Time::At(timestamp),
            id if id.is_some() && id == self.id => {
                if !self.is_incremental {
                    let units = timestamp.saturating_sub(self.start_units);
                    return Time::At(
                        self.now_ns
                            .saturating_add(units.saturating_mul(self.unit_ns)),
                    );
                }
                self.now_ns = self
                    .now_ns
                    .saturating_add(timestamp.saturating_mul(self.unit_ns));
                Time::At(self.now_ns)
            }
            _ => Time::Unknown,
        }
    }
}

fn sequence_flags(packet: &TracePacketDecoder<'_>) -> i32 {
    packet.sequence_flags().ok().flatten().unwrap_or(0) as i32
}
