//! A ring that forgets nothing: connections are opened, used and closed, and only the changes are
//! recorded. A ring of 1 MiB overwrites most of the changes. Before that, the program of the data
//! source (made in `build.rs`) applies each to the table of open connections, so the trace has the whole
//! table at any moment.
//!
//! `cargo run --example connections` writes `connections.pftrace`. `tracezero cat` prints the table
//! after each change that the ring still has, and Perfetto's trace processor sees the same.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;

use tracezero::reader::{FullStates, PacketItem, PacketReader};
use tracezero::{BufferConfig, DataSource as _, DataSourceConfig, TraceConfig, data_source};

use self::schema::{TABLE_PROGRAM, TracePacketDecoderExt as _, TracePacketExt as _};

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

/// The number of changes.
const CHANGES: u32 = 200_000;

/// An open connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Connection {
    peer: String,
    sent_bytes: u64,
}

type Table = BTreeMap<u32, Connection>;

fn main() -> Result<(), Box<dyn Error>> {
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024))
        .add_data_source(DataSourceConfig::new("com.example.connections").state_limit_kib(1024))
        .record_in_memory()?;
    let mut table = Table::new();
    for number in 0..CHANGES {
        change(&mut table, number);
    }
    let (trace, report) = session.finish();
    fs::write("connections.pftrace", &trace)?;
    println!("{report}: connections.pftrace");
    println!("{} connections are open", table.len());

    let (last, changes) = last_table(&trace)?;
    assert_eq!(last, table);
    println!("the trace knows all of them, and the last {changes} of {CHANGES} changes");
    Ok(())
}

/// Changes the table, and records the change.
fn change(table: &mut Table, number: u32) {
    // Each id comes back only after 1000 changes, so a connection stays open for many changes.
    let id = number.wrapping_mul(7919) % 1000;
    let is_closed = number.is_multiple_of(3) && table.remove(&id).is_some();
    let changed = (!is_closed).then(|| {
        let connection = table.entry(id).or_default();
        if connection.peer.is_empty() {
            connection.peer = format!("10.0.{}.{}:443", id / 250, id % 250);
        }
        connection.sent_bytes += u64::from(number % 1500);
        &*connection
    });
    Connections::trace(|cx| {
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.connection_patch(|patch| match changed {
                None => {
                    patch.add_closed_ids(id);
                }
                Some(connection) => patch.add_changed(|out| {
                    out.set_id(id);
                    out.set_peer(&connection.peer);
                    out.set_sent_bytes(connection.sent_bytes);
                }),
            });
        });
    });
}

/// Returns the table at the end of a trace, and the number of changes in it.
fn last_table(trace: &[u8]) -> Result<(Table, u32), Box<dyn Error>> {
    let mut packets = PacketReader::new(trace);
    let mut states = FullStates::new();
    let mut changes = 0;
    while let Some(item) = packets.next()? {
        if let PacketItem::Packet(packet) = item
            && states.apply(packet.bytes)?.is_some()
        {
            changes += 1;
        }
    }
    let state = states.states().next().ok_or("the trace has no state")?;
    let state = tracezero::protos::TracePacketDecoder::new(&state);
    let mut table = Table::new();
    for connection in state.connection_table()?.ok_or("no table")?.connections() {
        let connection = connection?;
        let id = connection.id()?.ok_or("a connection without id")?;
        let open = Connection {
            peer: connection.peer()?.unwrap_or_default().to_owned(),
            sent_bytes: connection.sent_bytes()?.unwrap_or_default(),
        };
        table.insert(id, open);
    }
    Ok((table, changes))
}
