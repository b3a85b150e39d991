//! The reader and the checker on arbitrary bytes. They always return, they report which bytes they
//! skip, and the result does not depend on the pieces in which the bytes arrive. The bytes are
//! random, with fixed seeds.

use std::io::Read;

use tracezero::reader::{
    ArgValue, Args, InTimeOrder, PacketItem, PacketReader, ReadError, Record, Slices, TraceReader,
    check,
};
use tracezero::{InMemorySession, Track, counter, dict, instant, span};

/// The number of traces of each kind.
const ROUNDS: u64 = 200;

/// A generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// A reader that returns the bytes in pieces of random sizes.
struct Pieces<'a> {
    bytes: &'a [u8],
    random: Random,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = 1 + self.random.below(40);
        let len = len.min(buffer.len()).min(self.bytes.len());
        let (piece, rest) = self.bytes.split_at(len);
        buffer[..len].copy_from_slice(piece);
        self.bytes = rest;
        Ok(len)
    }
}

fn good_trace() -> Vec<u8> {
    let session = InMemorySession::start().expect("a session");
    let track = Track::new("lane");
    for number in 0..40 {
        let _outer = span!("io", "outer", number, text = "abc");
        let _inner = span!("io", format!("inner {number}"), track: &track);
        counter!("io", "queue", number);
        instant!(
            "io",
            "there",
            window = dict(|window| {
                window.add("width", &640);
            })
        );
    }
    session.finish().0
}

/// Returns everything that the readers report about some bytes, as text.
fn read_all(bytes: impl Read, len: usize) -> String {
    let mut said = String::new();
    let mut reader = TraceReader::new(bytes);
    let (mut order, mut slices) = (InTimeOrder::with_window(16), Slices::new());
    // A packet has at least two bytes, and gives at most a loss and one other record.
    for _ in 0..=len {
        match reader.next() {
            Ok(None) => {
                order.finish(|event| {
                    slices.add(event, |_| (), |slice| said += &format!("{slice:?}"));
                });
                return said;
            }
            Ok(Some(Record::Event(event))) => {
                let categories: Vec<_> = event.categories().collect();
                said += &format!("{:?} {} {categories:?}", event.head, event.name());
                said += &format!("{:?} {:?}", event.location(), event.log_line());
                said += &format!("{:?}", event.flows().collect::<Vec<_>>());
                say_args(event.args(), &mut said);
                order.add(&event.head, event.tracks(), |event| {
                    slices.add(event, |_| (), |slice| said += &format!("{slice:?}"));
                });
            }
            Ok(Some(Record::Packet(packet))) => said += &format!("{:?}", packet.place),
            Ok(Some(record)) => said += &format!("{record:?}"),
            Err(error) => return said + &error.to_string(),
        }
    }
    panic!("the reader does not come to an end");
}

fn say_args(args: Args<'_>, said: &mut String) {
    for arg in args {
        *said += &arg.name;
        match arg.value {
            ArgValue::Dict(args) | ArgValue::Array(args) => say_args(args, said),
            value => *said += &format!("{value:?}"),
        }
    }
}

fn assert_reads(bytes: &[u8], seed: u64) {
    let at_once = read_all(bytes, bytes.len());
    let pieces = Pieces {
        bytes,
        random: Random(seed),
    };
    assert_eq!(read_all(pieces, bytes.len()), at_once, "seed {seed}");
    // The checker ends, whatever it finds.
    let _ = check(bytes, |finding| assert!(!finding.to_string().is_empty()));
    assert_bytes_are_accounted_for(bytes, seed);
}

/// Asserts that each byte is in a packet, or reported as skipped.
fn assert_bytes_are_accounted_for(bytes: &[u8], seed: u64) {
    let mut reader = PacketReader::new(bytes);
    let mut next_offset = 0;
    loop {
        match reader.next() {
            Ok(None) => break,
            Ok(Some(PacketItem::Packet(packet))) => {
                assert_eq!(packet.place.offset, next_offset, "seed {seed}");
                let header_bytes = bytes[next_offset as usize + 1..]
                    .iter()
                    .position(|byte| *byte < 0x80)
                    .expect("a length");
                next_offset += 2 + header_bytes as u64 + packet.bytes.len() as u64;
            }
            Ok(Some(PacketItem::Damage(damage))) => {
                assert_eq!(damage.offset, next_offset, "seed {seed}");
                next_offset += damage.length_bytes;
            }
            Err(ReadError::NotATrace { .. }) => return,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert_eq!(next_offset, bytes.len() as u64, "seed {seed}");
}

#[test]
fn random_bytes_are_read() {
    for seed in 1..=ROUNDS {
        let mut random = Random(seed << 20 | 0x5555);
        let len = random.below(2000);
        let mut bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        // Begins like a trace in half of the cases.
        if seed % 2 == 0 && len > 100 {
            bytes[..2].copy_from_slice(&[0x0a, 60]);
        }
        assert_reads(&bytes, seed);
    }
}

#[test]
fn small_numbers_which_are_often_fields_are_read() {
    const BYTES: [u8; 12] = [0x0a, 2, 5, 8, 0x0a, 0x10, 0x50, 0x5a, 0x12, 0x68, 1, 0];
    for seed in 1..=ROUNDS {
        let mut random = Random(seed << 21 | 0x5555);
        let len = random.below(600);
        let bytes: Vec<u8> = (0..len).map(|_| BYTES[random.below(BYTES.len())]).collect();
        assert_reads(&bytes, seed);
    }
}

#[test]
fn damaged_traces_are_read() {
    let good = good_trace();
    for seed in 1..=ROUNDS {
        let mut random = Random(seed << 22 | 0x5555);
        let mut bytes = good.clone();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len());
            match random.below(5) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.below(256) as u8,
                2 => drop(bytes.drain(at..(at + random.below(30)).min(bytes.len()))),
                3 => drop(bytes.splice(at..at, [0xff, 0x0a, 0x00])),
                _ => bytes.truncate(at.max(bytes.len() / 2)),
            }
        }
        assert_reads(&bytes, seed);
    }
}

#[test]
fn a_trace_is_read_in_any_pieces() {
    let good = good_trace();
    for seed in 1..20 {
        assert_reads(&good, seed);
    }
}
