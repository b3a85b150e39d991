//! More threads than there are writer ids, one after the other, each of which records one event.
//! When an id is used again, the packets of its new owner are not taken for those of the last one.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::thread;

use tracezero::protos::TraceDecoder;
use tracezero::testing::Trace;
use tracezero::{BufferConfig, TraceConfig, instant};

/// The number of threads. There are 32,767 writer ids.
const THREADS: u64 = 40_000;

#[test]
fn more_threads_than_writer_ids_lose_no_event() {
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64 * 1024))
        .record_all();
    let session = config.record_in_memory().unwrap();
    for number in 0..THREADS {
        thread::spawn(move || instant!("threads", "lived", number = number))
            .join()
            .unwrap();
    }
    let (trace, report) = session.finish();

    assert_eq!(report.events, THREADS, "{report}");
    assert_eq!(report.packets_read, report.packets_begun, "{report}");
    assert_eq!(report.losses.total(), 0, "{report}");
    Trace::read(&trace[..]).unwrap().assert_well_formed();
    for packet in TraceDecoder::new(&trace).packet() {
        assert_eq!(packet.unwrap().previous_packet_dropped().unwrap(), None);
    }
}
