//! States that rings keep of overwritten packets, from the build script to the reader.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::time::Duration;

use support::alone;
use tracezero::protos::TracePacketDecoder;
use tracezero::reader::{FullStates, PacketItem, PacketReader};
use tracezero::testing::Trace;
use tracezero::{
    BufferConfig, DataSource as _, DataSourceConfig, FlightRecorder, InMemorySession, Session,
    TraceConfig, Warning, data_source,
};

use self::schema::{TABLE_PROGRAM, TableDecoder, TracePacketDecoderExt as _, TracePacketExt as _};

mod schema {
    protozero::include_protos!("connections");
}

struct Connections;
data_source!(
    Connections,
    "com.example.connections",
    protozero::include_descriptor_set!("connections"),
    TABLE_PROGRAM
);

const CONNECTION_TABLE: u32 = 1902;

/// The bytes that each open connection has sent, by its id.
type Table = BTreeMap<u32, u64>;

/// Changes the table, and records the change.
fn change(table: &mut Table, number: u32) {
    change_entry(table, number.wrapping_mul(7919) % 300, number);
}

fn change_entry(table: &mut Table, id: u32, number: u32) {
    let is_closed = number.is_multiple_of(3) && table.remove(&id).is_some();
    let sent_bytes = (!is_closed).then(|| {
        let sent_bytes = table.entry(id).or_default();
        *sent_bytes += u64::from(number);
        *sent_bytes
    });
    Connections::trace(|cx| {
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.connection_patch(|patch| match sent_bytes {
                None => {
                    patch.add_closed_ids(id);
                }
                Some(sent_bytes) => patch.add_changed(|connection| {
                    connection.set_id(id).set_sent_bytes(sent_bytes);
                }),
            });
        });
    });
}

/// Makes changes, and returns the table after each.
fn tables(changes: u32) -> Vec<Table> {
    let mut table = Table::new();
    let after = (0..changes).map(|number| {
        change(&mut table, number);
        table.clone()
    });
    after.collect()
}

fn config(buffer: BufferConfig, limit_kib: u32) -> TraceConfig {
    TraceConfig::empty().add_buffer(buffer).add_data_source(
        DataSourceConfig::new("com.example.connections").state_limit_kib(limit_kib),
    )
}

fn session(buffer: BufferConfig, limit_kib: u32) -> InMemorySession {
    config(buffer, limit_kib).record_in_memory().unwrap()
}

fn decoded(table: &TableDecoder<'_>) -> Table {
    let connections = table.connections().map(|connection| {
        let connection = connection.unwrap();
        let id = connection.id().unwrap().unwrap();
        (id, connection.sent_bytes().unwrap().unwrap())
    });
    connections.collect()
}

/// Returns the tables of a trace, one after each change that it has.
fn read(trace: &[u8]) -> Vec<Table> {
    let mut packets = PacketReader::new(trace);
    let mut states = FullStates::new();
    let mut tables = Vec::new();
    while let Some(item) = packets.next().unwrap() {
        let PacketItem::Packet(packet) = item else {
            panic!("{item:?}");
        };
        if let Some(state) = states.apply(packet.bytes).unwrap() {
            let state = TracePacketDecoder::new(state);
            let patch = TracePacketDecoder::new(packet.bytes);
            // The state is that of its moment, of its writer and of its process.
            assert_eq!(state.timestamp(), patch.timestamp());
            assert_eq!(state.trusted_uid(), patch.trusted_uid());
            assert_eq!(
                state.trusted_packet_sequence_id(),
                patch.trusted_packet_sequence_id()
            );
            let table = state.connection_table().unwrap();
            tables.push(table.map(|table| decoded(&table)).unwrap_or_default());
        }
    }
    tables
}

#[test]
fn a_lapped_ring_knows_the_table_after_each_change_that_is_left() {
    let _guard = alone();
    let session = session(BufferConfig::ring(64), 1024);
    let tables = tables(20_000);
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0, "{report}");
    assert_eq!(report.packets_begun, 20_000);
    assert_eq!(report.packets_read + report.packets_folded, 20_000);
    assert!(report.packets_folded > 10_000, "{report}");
    let folded = format!(", {} folded into states, 0 lost", report.packets_folded);
    assert!(report.to_string().contains(&folded), "{report}");
    assert_eq!(read(&trace), tables[report.packets_folded as usize..]);
}

#[test]
fn tests_query_the_states_of_a_trace() {
    let _guard = alone();
    let session = session(BufferConfig::ring(16), 1024);
    let tables = tables(5000);
    let (bytes, report) = session.finish();
    let trace = Trace::read(bytes).unwrap();
    let states = trace.states_with(CONNECTION_TABLE);
    assert_eq!(states.len() as u64, report.packets_read);
    assert_eq!(
        decoded(&TableDecoder::new(states.last().unwrap())),
        *tables.last().unwrap()
    );
}

#[test]
fn a_snapshot_knows_the_table_of_its_moment() {
    let _guard = alone();
    let session = session(BufferConfig::ring(64), 1024);
    let tables = tables(20_000);
    let snapshot = session.control().snapshot().unwrap();
    change(&mut Table::new(), 1);
    assert_eq!(read(snapshot.trace()).last(), tables.last());
    let (_, report) = session.finish();
    assert_eq!(report.losses.total(), 0, "{report}");
}

#[test]
fn a_file_has_all_changes_and_nothing_to_fold() {
    let _guard = alone();
    let folder = support::Folder::empty();
    let session = config(BufferConfig::ring(64), 1024)
        .record_to_file(folder.file("trace"))
        .unwrap();
    let tables = tables(5000);
    let report = session.finish().unwrap();
    assert_eq!(
        (report.packets_read, report.packets_folded),
        (5000, 0),
        "{report}"
    );
    assert_eq!(read(&std::fs::read(folder.file("trace")).unwrap()), tables);
}

#[test]
fn a_session_of_everything_keeps_states() {
    let _guard = alone();
    let folder = support::Folder::empty();
    let session = Session::record_to_file(folder.file("trace")).unwrap();
    let tables = tables(500);
    session.finish().unwrap();
    assert_eq!(read(&std::fs::read(folder.file("trace")).unwrap()), tables);
}

#[test]
fn threads_that_come_later_change_the_same_state() {
    let _guard = alone();
    let folder = support::Folder::empty();
    let session = config(BufferConfig::ring(64), 1024)
        .record_to_file(folder.file("trace"))
        .unwrap();
    let mut table = Table::new();
    for thread in 0..5 {
        std::thread::scope(|scope| {
            scope
                .spawn(|| (thread * 100..(thread + 1) * 100).for_each(|it| change(&mut table, it)));
        });
        assert!(session.control().flush());
    }
    session.finish().unwrap();
    let tables = read(&std::fs::read(folder.file("trace")).unwrap());
    assert_eq!((tables.len(), tables.last()), (500, Some(&table)));
}

#[test]
fn a_state_that_is_too_small_is_named() {
    let _guard = alone();
    let session = session(BufferConfig::ring(64), 1);
    tables(20_000);
    let (_, report) = session.finish();
    assert!(report.losses.overwritten > 0, "{report}");
    let [
        Warning::IncompleteState {
            data_source,
            packets,
            error,
        },
    ] = &report.warnings[..]
    else {
        panic!("{report}");
    };
    assert_eq!(data_source, "com.example.connections");
    assert_eq!(*packets, report.losses.overwritten);
    assert!(error.contains("limit"), "{error}");
    assert!(report.to_string().contains("give it more with"), "{report}");
}

#[test]
fn damaged_states_harm_no_reader() {
    let _guard = alone();
    let session = session(BufferConfig::ring(4), 1024);
    tables(500);
    let (trace, _) = session.finish();
    for position in (0..trace.len()).step_by(3) {
        let mut damaged = trace.clone();
        damaged[position] ^= 0x55;
        let mut packets = PacketReader::new(&damaged[..]);
        let mut states = FullStates::new();
        while let Ok(Some(item)) = packets.next() {
            if let PacketItem::Packet(packet) = item {
                // Whatever the bytes are, there is no panic, and it ends.
                let _ = states.apply(packet.bytes);
            }
        }
    }
}

#[test]
fn each_snapshot_of_a_flight_recorder_knows_the_table_of_its_moment() {
    let _guard = alone();
    let folder = support::Folder::empty();
    let recorder = FlightRecorder::builder()
        .config(config(BufferConfig::ring(64), 1024))
        .directory(folder.path())
        .min_interval(Duration::ZERO)
        .start()
        .unwrap();
    let mut table = Table::new();
    // A ring that has lapped, then a few changes, then laps that drop what was saved before.
    let mut begin = 0;
    for changes in [20_000, 50, 20_000, 3, 20_000] {
        (begin..begin + changes).for_each(|number| change(&mut table, number));
        begin += changes;
        // Entries that do not change again, right before they are saved.
        (begin..begin + 5).for_each(|id| change_entry(&mut table, id, 1));
        let saved = recorder.snapshot("now").save().unwrap();
        let tables = read(&std::fs::read(saved).unwrap());
        assert_eq!(tables.last(), Some(&table), "after {begin} changes");
    }
}
