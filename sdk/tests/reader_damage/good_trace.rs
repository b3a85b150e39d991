//! The good trace that tests break: threads, slices, arguments, tracks, counters and a flow.

use std::sync::LazyLock;

use tracezero::reader::{PacketItem, PacketReader};
use tracezero::{Flow, InMemorySession, Track, counter, instant, span};

use crate::edit::{Content, Message, put_varint};

/// Field numbers of a packet.
pub mod field {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const PREVIOUS_PACKET_DROPPED: u32 = 42;
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const EXTENSION_DESCRIPTOR: u32 = 72;
    pub const TRUSTED_PID: u32 = 79;
    pub const FIRST_PACKET: u32 = 87;
}

/// Field numbers of a track event.
pub mod event {
    pub const TYPE: u32 = 9;
    pub const TRACK_UUID: u32 = 11;
    pub const COUNTER_VALUE: u32 = 30;
    pub const FLOW_IDS: u32 = 47;
    pub const TERMINATING_FLOW_IDS: u32 = 48;
    pub const SLICE_END: u64 = 2;
    pub const COUNTER: u64 = 4;
}

/// Field numbers of interned data.
pub mod table {
    pub const EVENT_NAMES: u32 = 2;
    pub const ARG_NAMES: u32 = 3;
}

/// A trace as a list of packets that tests can edit.
#[derive(Clone, Debug)]
pub struct Trace {
    pub packets: Vec<Message>,
}

static GOOD: LazyLock<Trace> = LazyLock::new(|| Trace::of(&record()));

fn record() -> Vec<u8> {
    let session = InMemorySession::start().expect("a session");
    let flow = Flow::new();
    let lane = Track::new("lane");
    // The threads overlap, so each of them has a writer, and thereby a sequence, of its own.
    on_thread("worker", || {
        {
            let _read = span!("io", "read", path = "Cargo.toml");
            let _parse = span!("io", "parse");
        }
        counter!("io", "queue", 3);
        counter!("io", "queue", 5);
        instant!("io", "send", flow: &flow);
        instant!("io", "passed", track: &lane);
        on_thread("answering", || {
            drop(span!("io", "answer", last_flow: &flow));
            on_thread("short", || instant!("io", "ready"));
        });
    });
    let (trace, report) = session.finish();
    assert_eq!((report.events, report.losses.total()), (11, 0));
    trace
}

fn on_thread(name: &str, work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn_scoped(scope, work);
        thread.expect("a thread").join().expect("no panic");
    });
}

impl Trace {
    /// Returns a trace without any mistake.
    pub fn good() -> Self {
        GOOD.clone()
    }

    fn of(bytes: &[u8]) -> Self {
        let mut reader = PacketReader::new(bytes);
        let mut packets = Vec::new();
        while let Some(item) = reader.next().expect("it can be read") {
            match item {
                PacketItem::Packet(packet) => packets.push(Message::decode(packet.bytes)),
                PacketItem::Damage(damage) => panic!("{damage}"),
            }
        }
        Self { packets }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for packet in &self.packets {
            put_frame(&mut bytes, &packet.encode());
        }
        bytes
    }

    /// Returns the offset of a packet in the file.
    pub fn offset(&self, packet: usize) -> usize {
        let before = Self {
            packets: self.packets[..packet].to_vec(),
        };
        before.encode().len()
    }

    /// Returns the packet of the event with this name, which occurs once.
    pub fn event(&self, name: &str) -> usize {
        self.position(|packet| {
            let interned = packet.message(field::INTERNED_DATA);
            let names = interned.map(|interned| interned.messages(table::EVENT_NAMES));
            names.is_some_and(|names| {
                let bytes = Content::Bytes(name.as_bytes().to_vec());
                names
                    .iter()
                    .any(|entry| entry.0.contains(&(2, bytes.clone())))
            })
        })
    }

    /// Returns the first packet on the same sequence as `packet`.
    pub fn start(&self, packet: usize) -> usize {
        let sequence_id = self.sequence_id(packet);
        self.position(|packet| packet.number(field::SEQUENCE_ID) == sequence_id)
    }

    /// Returns the packet of the first event of this type, on the same sequence as `packet`.
    pub fn event_of_type(&self, packet: usize, event_type: u64) -> usize {
        let sequence_id = self.sequence_id(packet);
        self.position(|packet| {
            let event = packet.message(field::TRACK_EVENT);
            packet.number(field::SEQUENCE_ID) == sequence_id
                && event.is_some_and(|event| event.number(event::TYPE) == Some(event_type))
        })
    }

    /// Returns the packet with the descriptor of a track.
    pub fn descriptor(&self, uuid: u64) -> usize {
        self.position(|packet| {
            let descriptor = packet.message(field::TRACK_DESCRIPTOR);
            descriptor.is_some_and(|descriptor| descriptor.number(1) == Some(uuid))
        })
    }

    /// Returns the track of an event.
    pub fn track(&self, packet: usize) -> u64 {
        let event = self.packets[packet].message(field::TRACK_EVENT);
        let track = event.and_then(|event| event.number(event::TRACK_UUID));
        track.expect("an event with a track")
    }

    pub fn sequence_id(&self, packet: usize) -> Option<u64> {
        self.packets[packet].number(field::SEQUENCE_ID)
    }

    pub fn position(&self, is_it: impl Fn(&Message) -> bool) -> usize {
        let position = self.packets.iter().position(is_it);
        position.expect("there is such a packet")
    }
}

/// Appends a packet with its tag and length.
pub fn put_frame(out: &mut Vec<u8>, packet: &[u8]) {
    out.push(0x0a);
    put_varint(out, packet.len() as u64);
    out.extend_from_slice(packet);
}
