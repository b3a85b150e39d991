//! Data sources and lost packets. There is one page of shared memory, which tests can occupy.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::sync::mpsc;
use std::thread;

use tracezero::protos::TraceDecoder;
use tracezero::protos::trace_packet::SequenceFlags;
use tracezero::reader::check;
use tracezero::{BufferConfig, DataSource, Error, Setup, TraceConfig};

struct Numbers;

impl DataSource for Numbers {
    const NAME: &'static str = "com.example.numbers";
    type ThreadState = ();
    /// The number of packets since the state was last cleared.
    type IncrementalState = u32;
    tracezero::data_source_state!(Numbers);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self
    }
}

/// The number of chunks in one page of shared memory.
const CHUNKS: u64 = 14;

/// Writes a packet. Returns the number of packets of this thread that were dropped so far.
fn write(number: u64) -> u64 {
    let mut dropped = 0;
    Numbers::trace(|cx| {
        cx.incremental_packet(|packet, defined| {
            packet.for_testing(|event| {
                event.set_counter(number).set_seq_value(*defined);
            });
            *defined += 1;
        });
        dropped = cx.drop_count();
    });
    dropped
}

#[test]
fn incremental_state_is_cleared_after_a_counted_loss() -> Result<(), Error> {
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .record_all()
        .shared_memory(4, 4)
        .record_in_memory()?;

    assert_eq!(write(0), 0);
    // Gives the chunk back, so that other threads can take all chunks of the page.
    Numbers::trace(|cx| {
        cx.flush();
    });
    let (chunk_is_held, held) = mpsc::channel::<()>();
    let holders: Vec<_> = (0..CHUNKS)
        .map(|index| {
            let chunk_is_held = chunk_is_held.clone();
            let (release, released) = mpsc::channel::<()>();
            let holder = thread::spawn(move || {
                write(100 + index);
                chunk_is_held.send(()).unwrap();
                released.recv().unwrap();
            });
            held.recv().unwrap();
            (release, holder)
        })
        .collect();
    assert_eq!([1, 2, 3].map(write), [1, 2, 3]);
    for (release, holder) in holders {
        release.send(()).unwrap();
        holder.join().unwrap();
    }
    assert_eq!([4, 5].map(write), [3, 3]);

    let (trace, report) = session.finish();
    assert_eq!(report.losses.dropped, 3);
    let checked = check(&trace[..], |finding| println!("{finding}"));
    assert_eq!(checked.unwrap().errors, 0);
    let packets = TraceDecoder::new(&trace).packet().filter_map(|packet| {
        let packet = packet.unwrap();
        let event = packet.for_testing().unwrap()?;
        let flags = packet.sequence_flags().unwrap()?;
        let number = event.counter().unwrap().filter(|number| *number < 100)?;
        Some((
            number,
            SequenceFlags(flags as i32),
            event.seq_value().unwrap()?,
        ))
    });
    assert_eq!(
        packets.collect::<Vec<_>>(),
        [
            (0, SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED, 0),
            (4, SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED, 0),
            (5, SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE, 1),
        ]
    );
    Ok(())
}
