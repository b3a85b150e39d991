//! The packets that introduce the machines of the merged trace, before all others.
//!
//! The packets of other machines keep their times, which are on their own clocks, and have the id of
//! their machine. A `RemoteClockSync` per machine relates its clock to that of the first machine, so
//! that readers convert the times. Trace processor also keeps the processes and threads of machines
//! apart by this id.
//!
//! Trace processor takes the boot clock of the machine with the latest clock snapshot as that of the
//! whole trace, as long as it has not converted a time of that machine. So each machine begins with
//! a packet whose time must be converted, before its first clock snapshot; and the trace begins with
//! a clock snapshot of the first machine.

use tracezero_core::protos::BuiltinClock;

use super::clocks::Reading;
use super::fields::{append_bytes_field, append_varint_field};
use super::host::TRACE_ATTRIBUTES;
use super::rewrite::{SERVICE, packet};

/// `RemoteClockSync.synced_clocks`, with the fields `client_clocks` and `host_clocks`.
const SYNCED_CLOCKS: u32 = 1;
const CLIENT_CLOCKS: u32 = 2;
const HOST_CLOCKS: u32 = 3;
/// `ClockSnapshot.clocks`, with the fields `clock_id` and `timestamp`.
const CLOCK: u32 = 1;
const CLOCK_ID: u32 = 1;
const CLOCK_TIME: u32 = 2;
/// `SystemInfo.machine_name`.
const MACHINE_NAME: u32 = 17;

const BOOT_CLOCK: u32 = BuiltinClock::BOOTTIME.0 as u32;
const TIME_OF_DAY_CLOCK: u32 = BuiltinClock::REALTIME.0 as u32;

/// Introduces the first machine: its clocks at some time, and its name.
pub(super) fn of_first_machine(reading: Reading, name: Option<&str>) -> Vec<Vec<u8>> {
    let clocks = [
        (BOOT_CLOCK, reading.boot_ns),
        (TIME_OF_DAY_CLOCK, reading.time_of_day_ns),
    ];
    // A trace without clock snapshots tells no time of day.
    let known = if reading.time_of_day_ns == 0 { 1 } else { 2 };
    let mut snapshot = Vec::new();
    append_bytes_field(
        packet::CLOCK_SNAPSHOT,
        &clock_snapshot(&clocks[..known]),
        &mut snapshot,
    );
    let mut packets = vec![snapshot];
    packets.extend(name.map(system_info));
    packets.into_iter().map(|it| of_service(it, 0)).collect()
}

/// Introduces another machine: its attributes, its name, and the relation of its clock to that of
/// the first machine.
pub(super) fn of_other_machine(
    machine_id: u32,
    name: Option<&str>,
    attributes: &[u8],
    boot_ns: u64,
    host_ns: u64,
) -> Vec<Vec<u8>> {
    let mut round = Vec::new();
    append_bytes_field(
        CLIENT_CLOCKS,
        &clock_snapshot(&[(BOOT_CLOCK, boot_ns)]),
        &mut round,
    );
    append_bytes_field(
        HOST_CLOCKS,
        &clock_snapshot(&[(BOOT_CLOCK, host_ns)]),
        &mut round,
    );
    let mut rounds = Vec::new();
    // A measurement has two rounds at least.
    append_bytes_field(SYNCED_CLOCKS, &round, &mut rounds);
    append_bytes_field(SYNCED_CLOCKS, &round, &mut rounds);
    let mut sync = Vec::new();
    append_bytes_field(packet::REMOTE_CLOCK_SYNC, &rounds, &mut sync);

    let mut told = Vec::new();
    append_varint_field(packet::TIMESTAMP, boot_ns, &mut told);
    append_varint_field(packet::TIMESTAMP_CLOCK_ID, BOOT_CLOCK.into(), &mut told);
    append_bytes_field(TRACE_ATTRIBUTES, attributes, &mut told);

    let mut packets = vec![sync, told];
    packets.extend(name.map(system_info));
    let packets = packets.into_iter();
    packets.map(|it| of_service(it, machine_id)).collect()
}

fn system_info(machine_name: &str) -> Vec<u8> {
    let mut info = Vec::new();
    append_bytes_field(MACHINE_NAME, machine_name.as_bytes(), &mut info);
    let mut out = Vec::new();
    append_bytes_field(packet::SYSTEM_INFO, &info, &mut out);
    out
}

fn clock_snapshot(clocks: &[(u32, u64)]) -> Vec<u8> {
    let mut snapshot = Vec::new();
    for (id, time_ns) in clocks {
        let mut clock = Vec::new();
        append_varint_field(CLOCK_ID, (*id).into(), &mut clock);
        append_varint_field(CLOCK_TIME, *time_ns, &mut clock);
        append_bytes_field(CLOCK, &clock, &mut snapshot);
    }
    snapshot
}

/// Adds the fields that the service adds to its own packets.
fn of_service(mut packet: Vec<u8>, machine_id: u32) -> Vec<u8> {
    append_varint_field(packet::SEQUENCE_ID, SERVICE.into(), &mut packet);
    if machine_id != 0 {
        append_varint_field(packet::MACHINE_ID, machine_id.into(), &mut packet);
    }
    packet
}
