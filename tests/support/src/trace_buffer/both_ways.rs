//! Checks that the two ways to read a trace buffer, packet by packet and in runs, return equal
//! packets and statistics.

use tracezero_service::trace_buffer::{LossMask, Packets, TraceBuffer, split_first_packet};

/// A packet as read: its writer, the loss before it, and its bytes.
#[derive(Debug, PartialEq)]
struct ReadPacket {
    producer: u32,
    writer: u16,
    loss: LossMask,
    bytes: Vec<u8>,
}

/// Reads the unread packets of `buffer` in both ways, each from a copy, and compares the results.
///
/// # Panics
///
/// If a packet or a statistic differs.
pub fn assert_same_both_ways(buffer: &TraceBuffer) {
    let copy = || buffer.clone_read_only().expect("memory for a copy");
    let (mut one_by_one, mut in_runs) = (copy(), copy());
    assert_eq!(read_in_runs(&mut in_runs), read_one_by_one(&mut one_by_one));
    assert_eq!(in_runs.stats(), one_by_one.stats());
    assert!(
        in_runs
            .all_packet_counts()
            .eq(one_by_one.all_packet_counts())
    );
    assert!(in_runs.storage_balance().is_even());
}

fn read_one_by_one(buffer: &mut TraceBuffer) -> Vec<ReadPacket> {
    let mut read = Vec::new();
    buffer.begin_read();
    while let Some(packet) = buffer.read_packet() {
        read.push(ReadPacket {
            producer: packet.origin().producer_id.value(),
            writer: packet.origin().writer_id.0,
            loss: packet.loss(),
            bytes: packet.slices().collect::<Vec<_>>().concat(),
        });
    }
    read
}

fn read_in_runs(buffer: &mut TraceBuffer) -> Vec<ReadPacket> {
    let mut read = Vec::new();
    buffer.begin_read();
    while let Some(packets) = buffer.read_packets() {
        match packets {
            Packets::One(packet) => read.push(ReadPacket {
                producer: packet.origin().producer_id.value(),
                writer: packet.origin().writer_id.0,
                loss: packet.loss(),
                bytes: packet.slices().collect::<Vec<_>>().concat(),
            }),
            Packets::Run(run) => {
                let mut loss = run.loss();
                let mut rest = run.bytes();
                while let Some((bytes, behind)) = split_first_packet(rest) {
                    rest = behind;
                    read.push(ReadPacket {
                        producer: run.origin().producer_id.value(),
                        writer: run.origin().writer_id.0,
                        loss: std::mem::take(&mut loss),
                        bytes: bytes.to_owned(),
                    });
                }
            }
        }
    }
    read
}
