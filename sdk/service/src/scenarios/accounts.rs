//! Tests of the accounts of sequences: the number of packets begun is always the sum of all
//! outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::harness::{World, write};
use super::manual_producer::pages_of_memory;
use crate::{CloneSource, ProducerEndpoint, Recording, SequenceAccount};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_config::LocalChoices;
use tracezero_core::coordination::{
    BufferExhaustedPolicy, DataSourceSetup, FlushFlags, PacketCounts, Producer, WriterTotals,
};
use tracezero_core::ids::{FlushId, InstanceId, WriterId};
use tracezero_core::shm::shared_memory;

const SOURCE: &str = "numbers";

/// Returns the sum of all outcomes in an account.
fn accounted(account: &SequenceAccount) -> u64 {
    account.read + account.buffered + account.in_flight + account.removed + account.lost()
}

fn only(accounts: Vec<SequenceAccount>) -> SequenceAccount {
    let [account] = accounts.try_into().expect("one sequence");
    assert_eq!(account.begun, accounted(&account), "{account}");
    account
}

fn config(buffer: BufferConfig) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(buffer)
        .add_data_source(DataSourceConfig::new(SOURCE))
}

#[test]
fn packets_are_in_flight_then_buffered_then_read() {
    let world = World::new();
    let producer = world.producer("app");
    producer.register(SOURCE);
    let session = world.session(config(BufferConfig::ring(64)));
    let mut writer = producer.writer(SOURCE);
    for _ in 0..3 {
        write(&mut writer, "in the open chunk");
    }
    let account = only(session.stats().sequences);
    assert_eq!((account.begun, account.in_flight), (3, 3));

    let _ = session.flush(0);
    let account = only(session.stats().sequences);
    assert_eq!(
        (account.begun, account.in_flight + account.buffered),
        (3, 3)
    );
    assert!(account.buffered >= 2, "{account}");

    write(&mut writer, "behind the flush");
    drop(writer);
    let account = only(session.stats().sequences);
    assert_eq!((account.begun, account.buffered), (4, 4));

    assert_eq!(session.read().texts().len(), 4);
    let account = only(session.stats().sequences);
    assert_eq!((account.begun, account.read), (4, 4));
    assert!(account.thread_name.is_some(), "{account}");
}

#[test]
fn packets_move_with_their_buffer_into_a_clone() {
    let world = World::new();
    let producer = world.producer("app");
    producer.register(SOURCE);
    let session = world.session(config(BufferConfig::ring(64).transfer_on_clone()));
    let mut writer = producer.writer(SOURCE);
    for _ in 0..5 {
        write(&mut writer, "before");
    }
    let source = CloneSource::Id(session.id);
    let snapshot = world.begin_clone(source, 0).finish().unwrap();
    // The chunk is committed again, complete. The part that is in the snapshot does not count
    // again.
    for _ in 0..4 {
        write(&mut writer, "after");
    }
    drop(writer);

    let in_snapshot = only(snapshot.stats().sequences);
    assert_eq!(in_snapshot.begun, 5, "{in_snapshot}");
    let moved = in_snapshot.buffered;
    assert_eq!(snapshot.read().texts().len() as u64, moved);

    let account = only(session.stats().sequences);
    assert_eq!((account.begun, account.removed), (9, moved), "{account}");
    assert_eq!(account.buffered, 9 - moved, "{account}");
    assert_eq!(session.read().texts().len() as u64, 9 - moved);
}

#[test]
fn packets_cleared_before_a_clone_are_in_the_account() {
    let world = World::new();
    let producer = world.producer("app");
    producer.register(SOURCE);
    let session = world.session(config(BufferConfig::ring(64).clear_before_clone()));
    let mut writer = producer.writer(SOURCE);
    (0..5).for_each(|_| write(&mut writer, "before"));
    writer.flush();
    let source = CloneSource::Id(session.id);
    let snapshot = world.begin_clone(source, 0).finish().unwrap();
    (0..2).for_each(|_| write(&mut writer, "after"));
    drop(writer);

    let in_snapshot = only(snapshot.stats().sequences);
    assert_eq!((in_snapshot.begun, in_snapshot.removed), (5, 5));
    let account = only(session.stats().sequences);
    assert_eq!((account.removed, account.buffered), (5, 2), "{account}");
}

#[test]
fn packets_read_before_a_clone_count_as_removed_there() {
    let world = World::new();
    let producer = world.producer("app");
    producer.register(SOURCE);
    let session = world.session(config(BufferConfig::ring(64)));
    let mut writer = producer.writer(SOURCE);
    (0..3).for_each(|_| write(&mut writer, "read before"));
    writer.flush();
    assert_eq!(session.read().texts().len(), 3);
    (0..2).for_each(|_| write(&mut writer, "unread"));
    writer.flush();
    let source = CloneSource::Id(session.id);
    let snapshot = world.begin_clone(source, 0).finish().unwrap();
    assert_eq!(snapshot.read().texts().len(), 2);
    let in_snapshot = only(snapshot.stats().sequences);
    assert_eq!(
        (in_snapshot.begun, in_snapshot.removed, in_snapshot.read),
        (5, 3, 2)
    );
    let account = only(session.stats().sequences);
    assert_eq!((account.read, account.buffered), (3, 2), "{account}");
}

#[test]
fn discarded_and_overwritten_packets_are_in_the_account() {
    for (buffer, is_ring) in [
        (BufferConfig::ring(4), true),
        (BufferConfig::discard(4), false),
    ] {
        let world = World::new();
        let producer = world.producer("app");
        producer.register(SOURCE);
        let session = world.session(config(buffer));
        let mut writer = producer.writer(SOURCE);
        (0..1000).for_each(|_| write(&mut writer, "a packet of some length"));
        drop(writer);
        let account = only(session.stats().sequences);
        assert_eq!(account.begun, 1000);
        assert!(account.lost() > 0, "{account}");
        let lost = if is_ring {
            account.overwritten
        } else {
            account.discarded
        };
        assert_eq!(account.lost(), lost, "{account}");
    }
}

#[test]
fn a_producer_is_told_how_long_writers_wait_before_they_drop() {
    let world = World::new();
    let producer = world.producer("app");
    producer.register(SOURCE);
    let limit = Duration::from_millis(7);
    let source = DataSourceConfig::new(SOURCE).exhausted_policy(BufferExhaustedPolicy::Stall);
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .add_data_source(source);
    let message = tracezero_config::decode(&config.encode()).unwrap();
    let local = LocalChoices {
        stall_limits: [(0, limit)].into_iter().collect(),
        ..LocalChoices::default()
    };
    let _session = world.session_of(Recording::new(&message, &local).unwrap());
    let (_, setup) = producer.setup(SOURCE);
    assert_eq!(setup.exhausted_policy, BufferExhaustedPolicy::Stall);
    assert_eq!(setup.stall_limit, limit);
}

#[test]
fn the_statistics_in_a_trace_carry_the_accounts() {
    use tracezero_core::protos::sequences::TracePacketDecoderExt as _;

    let world = World::new();
    let producer = world.producer("app");
    producer.register(SOURCE);
    let session = world.session(config(BufferConfig::ring(64)));
    let mut writer = producer.writer(SOURCE);
    (0..3).for_each(|_| write(&mut writer, "counted"));
    drop(writer);
    session.disable();
    let trace = session.read();
    let packets = trace.packets();
    let accounts: Vec<_> = packets
        .iter()
        .filter_map(|packet| packet.sequence_accounts().unwrap())
        .collect();
    let last = accounts.last().expect("statistics at the end");
    let sequences: Vec<_> = last.sequences().map(Result::unwrap).collect();
    assert_eq!(sequences.len(), 1);
    assert_eq!(sequences[0].begun().unwrap(), Some(3));
    assert_eq!(sequences[0].read().unwrap(), Some(3));
    assert_eq!(sequences[0].in_flight().unwrap(), Some(0));
}

/// A producer with writers to several buffers, which counts how often it is asked for them.
#[derive(Default)]
struct Asked {
    times: AtomicU64,
    writers: Mutex<Vec<WriterTotals>>,
}

impl Asked {
    fn connect(asked: &Arc<Self>, world: &World) -> ProducerEndpoint {
        let (_, memory) = shared_memory(pages_of_memory(1)).unwrap();
        world.connect(Arc::clone(asked) as _, SOURCE, memory)
    }
}

impl Producer for Asked {
    fn set_up_data_source(&self, _: InstanceId, _: &DataSourceSetup) -> bool {
        true
    }
    fn start_data_source(&self, _: InstanceId) {}
    fn stop_data_source(&self, _: InstanceId) {}
    fn flush(&self, _: FlushId, _: &[InstanceId], _: FlushFlags) {}
    fn clear_incremental_state(&self, _: &[InstanceId]) {}

    fn writer_totals(&self) -> Vec<WriterTotals> {
        // Relaxed: a count that orders nothing else.
        self.times.fetch_add(1, Ordering::Relaxed);
        self.writers.lock().clone()
    }
}

#[test]
fn statistics_ask_each_producer_once_for_its_writers() {
    const BUFFERS: usize = 64;
    const WRITERS_EACH: usize = 50;
    let world = World::new();
    let asked = Arc::new(Asked::default());
    let endpoint = Asked::connect(&asked, &world);
    let all_buffers = (0..BUFFERS).fold(TraceConfig::empty(), |config, index| {
        config
            .add_buffer(BufferConfig::ring(4))
            .add_data_source(DataSourceConfig::new(SOURCE).target_index(index))
    });
    let session = world.session(all_buffers);
    let buffers = world.service.buffers(session.id);
    let writers = (0..BUFFERS * WRITERS_EACH).map(|writer| {
        let mut totals = WriterTotals {
            writer_id: Some(WriterId(1 + writer as u16)),
            target_buffer: buffers[writer % BUFFERS].id,
            thread_name: None,
            counts: PacketCounts::default(),
        };
        totals.counts.packets_begun = 1;
        totals
    });
    *asked.writers.lock() = writers.collect();

    let asked_for = |work: &dyn Fn() -> usize| {
        let before = asked.times.load(Ordering::Relaxed);
        let accounts = work();
        (accounts, asked.times.load(Ordering::Relaxed) - before)
    };
    let stats = || session.stats().sequences.len();
    assert_eq!(asked_for(&stats), (BUFFERS * WRITERS_EACH, 1));
    let clone = || {
        let clone = world.begin_clone(CloneSource::Id(session.id), 0);
        let clone = clone.finish().unwrap();
        clone.stats().sequences.len()
    };
    // A clone keeps the writers that it was made with.
    assert_eq!(asked_for(&clone), (BUFFERS * WRITERS_EACH, 1));
    drop(endpoint);
    // Their counts stay when the producer has gone.
    assert_eq!(asked_for(&stats), (BUFFERS * WRITERS_EACH, 0));
    let in_flight = |account: &SequenceAccount| account.begun == 1 && account.in_flight == 1;
    assert!(session.stats().sequences.iter().all(in_flight));
}

#[test]
fn buffers_keep_counts_of_65536_writers_that_are_gone() {
    const MAX: usize = 65_536;
    let world = World::new();
    let asked = Arc::new(Asked::default());
    let session = world.session(
        TraceConfig::empty()
            .add_buffer(BufferConfig::ring(4))
            .add_data_source(DataSourceConfig::new(SOURCE)),
    );
    let totals = WriterTotals {
        writer_id: None,
        target_buffer: world.service.buffers(session.id)[0].id,
        thread_name: None,
        counts: PacketCounts::default(),
    };
    *asked.writers.lock() = vec![totals; MAX / 2 + 1];
    for _ in 0..2 {
        drop(Asked::connect(&asked, &world));
    }
    assert_eq!(
        world.service.buffers(session.id)[0].gone_writers().len(),
        MAX
    );
}
