//! A program that records changes of a table, which its program folds into a state.

use std::collections::BTreeMap;

use protozero::HeapBuffered;
use tracezero::protos::TracePacket;
use tracezero::{DataSource as _, System, data_source};

use self::schema::{TABLE_PROGRAM, TracePacketExt as _};
use super::{say, wait_for_line};
use crate::machine::wait_until;

pub mod schema {
    protozero::include_protos!("connections");
}

/// The name of the data source.
pub const TABLE: &str = "com.example.table";

struct Changes;
data_source!(
    Changes,
    TABLE,
    protozero::include_descriptor_set!("connections"),
    TABLE_PROGRAM
);

/// The number of changes.
pub const CHANGES: u32 = 50_000;

/// The bytes that each connection has sent, by its id.
pub type Table = BTreeMap<u32, u64>;

/// Makes a change of the table. Returns the connection that has changed, with what it has sent; `None` if
/// it is closed.
pub fn change(table: &mut Table, number: u32) -> (u32, Option<u64>) {
    let id = number.wrapping_mul(7919) % 500;
    if number.is_multiple_of(3) && table.remove(&id).is_some() {
        return (id, None);
    }
    let sent_bytes = table.entry(id).or_default();
    *sent_bytes += u64::from(number);
    (id, Some(*sent_bytes))
}

/// Encodes the packet of a change.
pub fn patch((id, sent_bytes): (u32, Option<u64>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<TracePacket<'_>>::new();
    buffer.message().connection_patch(|patch| match sent_bytes {
        None => {
            patch.add_closed_ids(id);
        }
        Some(sent_bytes) => patch.add_changed(|connection| {
            connection.set_id(id).set_sent_bytes(sent_bytes);
        }),
    });
    buffer.to_vec()
}

/// Records all changes.
pub fn changes_of_a_table(_: &System) {
    Changes::register();
    wait_until(Changes::is_enabled);
    let mut table = Table::new();
    for number in 0..CHANGES {
        let patch = patch(change(&mut table, number));
        Changes::trace(|cx| cx.packet(|packet| packet.as_message_mut().append_raw(&patch)));
    }
    say("done");
    wait_for_line();
}
