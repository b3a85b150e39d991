//! The bytes in a file that a span takes whose name is already defined.
//!
//! | bytes of an event's packet | begin | end | why |
//! |---|---|---|---|
//! | frame: tag and length | 2 | 2 | a trace is a sequence of packets |
//! | time stamp | 2 or 3 | 2 or 3 | the distance to the last event: one byte up to 127 ns, two up to 16 us |
//! | `sequence_flags` | 2 | 2 | says that the event builds on earlier packets |
//! | `track_event`: tag and length | 2 | 2 | an end holds nothing but its type |
//! | its type | 2 | 2 | |
//! | its category | 2 | | a number instead of the name |
//! | its name | 2 | | likewise |
//! | `trusted_packet_sequence_id` | 2 | 2 | the service's: whose numbers and distances these are |
//! | together | 16 or 17 | 12 or 13 | |

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::mem;

use perfetto_protos::trace_packet::TracePacket;
use protobuf::Message as _;
use protozero::{Decoder, Value};
use support::alone;
use tracezero::{InMemorySession, span};

const SPANS: usize = 20_000;
const TIMESTAMP: u32 = 8;
const SEQUENCE_ID: u32 = 10;
const TRACK_EVENT: u32 = 11;
const SEQUENCE_FLAGS: u32 = 13;
/// The bit of the flags for a start of the sequence.
const CLEARED: u32 = 1;

#[test]
fn span_with_known_name_takes_24_bytes_plus_timestamps() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    for _ in 0..SPANS {
        let _span = span!("sizes", "span");
    }
    let (trace, report) = session.finish();
    assert_eq!(report.events as usize, SPANS * 2);

    let mut timestamp_bytes = Vec::new();
    let (mut begins, mut ends) = (0, 0);
    // The number of starts of the sequence: at its first event, and in each of the 128 parts of the
    // ring.
    let (mut starts, mut is_first) = (0, false);
    let mut larger = 0;
    for packet in fields(&trace) {
        let decoded = TracePacket::parse_from_bytes(packet.content).unwrap();
        if decoded.sequence_flags() & CLEARED != 0 {
            starts += 1;
            is_first = true;
        }
        if !decoded.has_track_event() {
            continue;
        }
        // Leave out the first event after each start, and each begin that defines the names.
        if mem::take(&mut is_first) || decoded.interned_data.is_some() {
            larger += 1;
            continue;
        }
        let mut sizes = BTreeMap::new();
        for field in fields(packet.content) {
            assert_eq!(sizes.insert(field.number, field.size_bytes), None);
        }
        let frame = packet.size_bytes - packet.content.len();
        let timestamp = sizes.remove(&TIMESTAMP).unwrap();
        timestamp_bytes.push(timestamp);
        let event = match decoded.track_event().name_iid() {
            0 => 4,
            _ => 8,
        };
        let expected = [(SEQUENCE_ID, 2), (TRACK_EVENT, event), (SEQUENCE_FLAGS, 2)];
        assert_eq!(sizes, expected.into(), "{decoded}");
        assert_eq!(frame, 2);
        match packet.size_bytes - timestamp {
            14 => begins += 1,
            10 => ends += 1,
            other => panic!("{other} bytes: {decoded}"),
        }
    }
    assert_eq!(begins + ends + larger, 2 * SPANS);
    // If the first event is an end, the begin after it defines the names.
    assert!((1..=2).contains(&starts), "{starts}");
    assert!((starts..=2 * starts).contains(&larger), "{larger}");
    // Some spans take longer, because the thread may be interrupted; the others are fast.
    let short = timestamp_bytes.iter().filter(|&&bytes| bytes <= 3).count();
    assert!(short * 10 >= timestamp_bytes.len() * 9, "{short}");
}

struct Field<'a> {
    number: u32,
    /// The size, including the tag and the length if there is one.
    size_bytes: usize,
    /// The content of a field with a length; empty for a number.
    content: &'a [u8],
}

fn fields(message: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Decoder::new(message).fields();
    let mut all = Vec::new();
    let mut start = 0;
    while let Some(field) = fields.next() {
        let field = field.unwrap();
        let content = match field.value {
            Value::Bytes(content) => content,
            _ => &[],
        };
        all.push(Field {
            number: field.number,
            size_bytes: fields.offset() - start,
            content,
        });
        start = fields.offset();
    }
    all
}

#[test]
fn arguments_take_the_same_bytes_wherever_their_event_stands() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    for _ in 0..SPANS {
        let _span = span!(
            "sizes",
            "with arguments",
            number = 7,
            text = "sixteen bytes .."
        );
    }
    let (trace, _) = session.finish();
    let mut sizes = BTreeMap::<usize, usize>::new();
    for packet in fields(&trace) {
        let decoded = TracePacket::parse_from_bytes(packet.content).unwrap();
        if !decoded.track_event().debug_annotations.is_empty() && decoded.interned_data.is_none() {
            let event = fields(packet.content);
            let event = event.iter().find(|field| field.number == TRACK_EVENT);
            *sizes.entry(event.unwrap().size_bytes).or_default() += 1;
        }
    }
    // Tag and length, type, category and name: 8. A number: 6. A text: its length and 6.
    assert_eq!(Vec::from_iter(sizes.keys().copied()), [8 + 6 + 22]);
    let count = sizes[&(8 + 6 + 22)];
    // Counts the begin events that define no names. The first begin event defines them, and so does
    // one in each further part (1/128) of the ring, because each part must be readable by itself.
    assert!(count >= SPANS - 10, "{count}");
}
