//! What must hold for a trace that was recovered of the program.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use judge::{ExtraSchema, judge};
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_stats::trace_stats::BufferStats;
use tracezero::crash::{RecoveredTrace, leftovers};

use crate::program::{Kind, Reported, text};

/// The field of attributes in a `TracePacket`, which the published schema does not know yet.
const TRACE_ATTRIBUTES: u32 = 126;

/// Recovers the only trace of the only process in a directory, and checks it against what the
/// program has reported. Removes the crash files.
pub fn recover_and_check(kind: Kind, directory: &Path, reported: &Reported) {
    let mut left = leftovers(directory).unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    let leftover = left.remove(0);
    let traces = leftover.recover_into(directory.join("traces")).unwrap();
    assert_eq!(traces.len(), 1);
    check_trace(kind, &traces[0], reported);
    leftover.delete().unwrap();
    fs::remove_dir_all(directory).unwrap();
}

fn check_trace(kind: Kind, trace: &RecoveredTrace, reported: &Reported) {
    assert_eq!(trace.damages, [] as [&str; 0]);
    let bytes = fs::read(&trace.path).unwrap();
    assert_eq!(bytes.len() as u64, trace.size_bytes);
    let verdict = judge(&bytes, &ExtraSchema::new()).unwrap();
    let count = |has: fn(&TracePacket) -> bool| verdict.packets.iter().filter(|it| has(it)).count();
    assert_eq!(count(TracePacket::has_trace_config), 1);
    assert_eq!(count(TracePacket::has_trace_uuid), 1);
    assert_eq!(count(TracePacket::has_system_info), 1);
    let has_attributes = |packet: &TracePacket| {
        let unknown = packet.special_fields.unknown_fields();
        unknown.get(TRACE_ATTRIBUTES).is_some()
    };
    assert_eq!(count(has_attributes), 1);
    let discarded = |packet: &TracePacket| {
        let buffers = &packet.trace_stats().buffer_stats;
        buffers
            .iter()
            .map(BufferStats::chunks_discarded)
            .sum::<u64>()
    };
    assert_eq!(verdict.packets.iter().map(discarded).sum::<u64>(), 0);
    let mut numbers: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut sequences: HashMap<u32, u32> = HashMap::new();
    for packet in verdict.packets.iter().filter(|it| it.has_for_testing()) {
        let event = packet.for_testing();
        let (thread, number) = (event.seq_value(), event.counter());
        assert!(
            event.str() == text(kind, thread, number),
            "{thread}: {number} is damaged"
        );
        numbers.entry(thread).or_default().push(number);
        sequences.insert(thread, packet.trusted_packet_sequence_id());
    }
    for (thread, &last_reported) in reported.iter().enumerate() {
        let numbers = numbers.remove(&(thread as u32)).unwrap_or_default();
        let sequence_id = sequences.get(&(thread as u32)).copied();
        let mut accounts = trace.sequences.iter();
        let account = accounts.find(|it| sequence_id.is_some() && it.sequence_id == sequence_id);
        let is_full = account.is_some_and(|it| it.discarded > 0 || it.overwritten > 0);
        for pair in numbers.windows(2) {
            assert_eq!(
                pair[0] + 1,
                pair[1],
                "{thread}: a packet is missing or twice"
            );
        }
        let (Some(&first), Some(&last), Some(account)) = (numbers.first(), numbers.last(), account)
        else {
            assert!(
                last_reported == 0 || ![Kind::LargeRing, Kind::Streaming].contains(&kind),
                "{thread}: nothing"
            );
            continue;
        };
        match kind {
            Kind::LargeRing | Kind::Streaming => {
                assert_eq!((first, is_full), (1, false), "{account}");
            }
            Kind::SmallRing | Kind::LongPackets => {
                assert!(first == 1 || is_full, "{account}");
            }
            Kind::Discard => assert_eq!(first, 1, "{account}"),
        }
        if kind != Kind::Discard || !is_full {
            assert!(last >= last_reported, "{last} < {last_reported}: {account}");
        }
        assert_eq!(account.read, numbers.len() as u64, "{account}");
        // The thread was in the middle of at most one packet.
        let begun = account.begun;
        assert!(
            (last_reported..=last_reported + 2).contains(&begun),
            "{last_reported}: {account}"
        );
        assert_eq!(
            account.thread_name.as_deref(),
            Some(&*format!("writer {thread}"))
        );
    }
    assert!(numbers.is_empty());
}
