//! Fuzzes the reader, the checker and the outline with any bytes: they return, and every byte is in
//! a packet or reported as damage.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracezero::reader::{
    ArgValue, Args, EventHead, InTimeOrder, Outline, PacketItem, PacketReader, ReadError, Record,
    Slices, TraceReader, check,
};

fuzz_target!(|bytes: &[u8]| {
    read_packets(bytes);
    read_records(bytes);
    let _ = check(bytes, |finding| assert!(!finding.text.is_empty()));
    let _ = Outline::read(&mut TraceReader::new(bytes));
});

fn read_packets(bytes: &[u8]) {
    let mut reader = PacketReader::new(bytes);
    let mut left_out = 0;
    let mut next_offset = 0;
    loop {
        match reader.next() {
            Ok(None) => break,
            Ok(Some(PacketItem::Packet(packet))) => {
                assert!(packet.place.offset >= next_offset);
                next_offset = packet.place.offset + 2 + packet.bytes.len() as u64;
            }
            Ok(Some(PacketItem::Damage(damage))) => {
                assert!(damage.offset >= next_offset && damage.length_bytes > 0);
                next_offset = damage.offset + damage.length_bytes;
                left_out += damage.length_bytes;
            }
            Err(ReadError::NotATrace { .. } | ReadError::NoDecompressor { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(next_offset <= bytes.len() as u64 && left_out <= bytes.len() as u64);
}

fn read_records(bytes: &[u8]) {
    let mut reader = TraceReader::new(bytes);
    let (mut order, mut slices) = (InTimeOrder::with_window(8), Slices::new());
    let mut records = 0;
    while let Ok(Some(record)) = reader.next() {
        records += 1;
        // A packet has at least two bytes, and gives at most a loss and one other record.
        assert!(records <= bytes.len());
        if let Record::Event(event) = record {
            let _ = (event.name().len(), event.categories().count());
            let _ = (event.location(), event.log_line(), event.correlation());
            let _ = event.flows().chain(event.terminating_flows()).count();
            let _ = event.tracks().title(event.head.track, event.names());
            read_args(event.args());
            order.add(&event.head, event.tracks(), |event| {
                pair(&mut slices, event)
            });
        }
    }
    order.finish(|event| pair(&mut slices, event));
}

fn pair(slices: &mut Slices, event: &EventHead) {
    slices.add(
        event,
        |_| (),
        |slice| assert!(slice.self_ns <= slice.duration_ns),
    );
}

fn read_args(args: Args<'_>) {
    for arg in args {
        if let ArgValue::Dict(args) | ArgValue::Array(args) = arg.value {
            read_args(args);
        }
    }
}
