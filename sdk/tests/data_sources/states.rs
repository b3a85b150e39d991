//! The states of instances, threads and sequences.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use support::wait_until;
use tracezero::protos::TraceDecoder;
use tracezero::protos::trace_packet::SequenceFlags;
use tracezero::{BufferConfig, DataSource, DataSourceConfig, Error, TraceConfig};

use super::probe::{Callback, Probe, act_in, alone, assert_well_formed, note, notes, recording};

const CLEARED: u32 = SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32;
const NEEDED: u32 = SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u32;

#[test]
fn each_thread_has_a_state_for_each_instance() -> Result<(), Error> {
    fn count() -> Vec<(String, u64)> {
        let mut counts = Vec::new();
        Probe::trace(|cx| {
            *cx.thread_state() += 1;
            let count = *cx.thread_state();
            counts.push((cx.instance().label.clone(), count));
        });
        counts
    }
    fn labelled<const N: usize>(counts: [(&str, u64); N]) -> Vec<(String, u64)> {
        let owned = counts.map(|(label, count)| (label.to_owned(), count));
        owned.to_vec()
    }
    let _alone = alone();
    let first = recording("a").record_in_memory()?;
    assert_eq!(count(), labelled([("a", 1)]));
    let second = recording("b").record_in_memory()?;
    assert_eq!(count(), labelled([("a", 2), ("b", 1)]));
    let elsewhere = thread::spawn(count).join().unwrap();
    assert_eq!(elsewhere, labelled([("a", 1), ("b", 1)]));
    drop(first.finish());
    assert_eq!(count(), labelled([("b", 2)]));
    drop(second.finish());
    let third = recording("c").record_in_memory()?;
    assert_eq!(count(), labelled([("c", 1)]));
    drop(third.finish());
    Ok(())
}

#[test]
fn state_that_panics_in_drop_harms_no_later_session() -> Result<(), Error> {
    #[derive(Default)]
    struct Rude;
    impl Drop for Rude {
        fn drop(&mut self) {
            panic!("in the drop of a thread's state, as planned");
        }
    }
    struct Source;
    impl DataSource for Source {
        const NAME: &'static str = "com.example.rude";
        type ThreadState = Rude;
        type IncrementalState = ();
        tracezero::data_source_state!(Source);
        fn on_setup(_: &tracezero::Setup<'_>) -> Self {
            Self
        }
    }
    let _alone = alone();
    let config = || {
        let buffer = BufferConfig::ring(64);
        let source = DataSourceConfig::new("com.example.rude");
        TraceConfig::empty()
            .add_buffer(buffer)
            .add_data_source(source)
    };
    let session = config().record_in_memory()?;
    Source::trace(|cx| {
        cx.thread_state();
    });
    drop(session.finish());
    let session = config().record_in_memory()?;
    let mut traced = 0;
    Source::trace(|_| traced += 1);
    // If a thread ends before its session, the panic in the drop of its state does not abort the
    // process either.
    thread::spawn(|| {
        Source::trace(|cx| {
            cx.thread_state();
        });
    })
    .join()
    .expect("the thread has done its work");
    drop(session.finish());
    assert_eq!(traced, 1);
    Ok(())
}

/// Writes a number, and the count of numbers that the sequence had defined before.
fn write(number: u64) {
    Probe::trace(|cx| {
        cx.incremental_packet(|packet, defined| {
            packet.for_testing(|event| {
                event.set_counter(number);
                event.set_seq_value(defined.len() as u32);
            });
            defined.push(number);
        });
    });
}

/// Returns, for each packet: its sequence, its flags, its number, and the count of numbers defined
/// before.
fn written(trace: &[u8]) -> Vec<(u32, u32, u64, u32)> {
    assert_well_formed(trace);
    let packets = TraceDecoder::new(trace).packet();
    let numbers = packets.filter_map(|packet| {
        let packet = packet.unwrap();
        let event = packet.for_testing().unwrap()?;
        Some((
            packet.trusted_packet_sequence_id().unwrap()?,
            packet.sequence_flags().unwrap()?,
            event.counter().unwrap()?,
            event.seq_value().unwrap()?,
        ))
    });
    numbers.collect()
}

#[test]
fn packets_build_on_those_before_them_on_their_sequence() -> Result<(), Error> {
    let _alone = alone();
    let session = recording("a").record_in_memory()?;
    (0..3).for_each(write);
    thread::spawn(|| (10..12).for_each(write)).join().unwrap();
    let trace = session.finish().0;
    let mut sequences: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for (sequence, flags, number, defined) in written(&trace) {
        let packets = sequences.entry(sequence).or_default();
        packets.push((flags, number, defined));
    }
    let mut sequences: Vec<_> = sequences.into_values().collect();
    sequences.sort_by_key(|packets| packets[0].1);
    assert_eq!(
        sequences,
        [
            vec![(CLEARED, 0, 0), (NEEDED, 1, 1), (NEEDED, 2, 2)],
            vec![(CLEARED, 10, 0), (NEEDED, 11, 1)],
        ]
    );
    Ok(())
}

#[test]
fn state_that_was_read_first_is_still_announced_by_a_packet() -> Result<(), Error> {
    let _alone = alone();
    let session = recording("a").record_in_memory()?;
    Probe::trace(|cx| cx.incremental_state().push(42));
    (0..2).for_each(write);
    let packets = written(&session.finish().0).into_iter();
    let packets: Vec<_> = packets
        .map(|(_, flags, _, defined)| (flags, defined))
        .collect();
    assert_eq!(packets, [(CLEARED, 1), (NEEDED, 2)]);
    Ok(())
}

#[test]
fn incremental_state_is_new_after_service_clears_it() -> Result<(), Error> {
    let _alone = alone();
    let config = recording("a").incremental_state_clear_period(Duration::from_millis(20));
    let session = config.record_in_memory()?;
    (0..2).for_each(write);
    act_in(Callback::Clear, |_| note("cleared"));
    // The service clears the state before it calls the callback. The first clear may come before
    // these packets, so wait for a second one.
    wait_until(|| notes().iter().filter(|it| *it == "cleared").count() > 1);
    write(2);
    let trace = session.finish().0;
    let last = written(&trace)
        .pop()
        .map(|(_, flags, number, defined)| (flags, number, defined));
    assert_eq!(last, Some((CLEARED, 2, 0)));
    Ok(())
}

#[test]
fn lapped_ring_is_readable_except_oldest_quarter() -> Result<(), Error> {
    const PACKETS: u64 = 20_000;
    let _alone = alone();
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .add_data_source(DataSourceConfig::new(Probe::NAME));
    let session = config.record_in_memory()?;
    (0..PACKETS).for_each(write);
    let packets = written(&session.finish().0);
    let readable = packets
        .iter()
        .skip_while(|(_, flags, ..)| *flags != CLEARED);
    let mut defined_before = 0;
    let mut readable_count = 0;
    for &(_, flags, number, defined) in readable {
        if flags == CLEARED {
            defined_before = 0;
        }
        assert_eq!(defined, defined_before, "at packet {number}");
        defined_before += 1;
        readable_count += 1;
    }
    assert!(packets.len() < PACKETS as usize, "the ring has not lapped");
    assert!(
        readable_count * 4 > packets.len() * 2,
        "{readable_count} of {}",
        packets.len()
    );
    assert_eq!(packets.last().map(|packet| packet.2), Some(PACKETS - 1));
    Ok(())
}

#[test]
fn a_context_tells_what_became_of_its_packets() -> Result<(), Error> {
    let _alone = alone();
    let session = recording("a").record_in_memory()?;
    Probe::write(1);
    Probe::trace(|cx| {
        assert_eq!(cx.packet_counts().packets_begun, 1);
        assert_eq!(cx.drop_count(), 0);
    });
    drop(session.finish());
    Ok(())
}

#[test]
fn flushed_packets_are_in_the_buffer_when_flush_returns() -> Result<(), Error> {
    let _alone = alone();
    let session = recording("a").record_in_memory()?;
    Probe::write(1);
    let chunks = |session: &tracezero::InMemorySession| {
        let stats = session.control().stats();
        stats.buffers[0].chunks_written
    };
    assert_eq!(chunks(&session), 0);
    Probe::trace(|cx| {
        cx.flush();
    });
    assert_eq!(chunks(&session), 1);
    drop(session.finish());
    Ok(())
}
