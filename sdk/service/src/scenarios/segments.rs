use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use support::Folder;

use super::harness::{ReadTrace, StartError, TestProducer, TestSession, World, write};
use crate::{CloneSource, EndedSegment, SegmentStore, SequenceAccount, State, TraceOutput};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::protos::trace_packet::SequenceFlags;
use tracezero_producer::TraceWriter;

const STARTS: SequenceFlags = SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED;
const NEEDS: SequenceFlags = SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE;

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .add_data_source(DataSourceConfig::new("ds"))
        .write_into_file()
}

/// Has room for a number of bytes, and keeps what it is told.
#[derive(Debug)]
struct Store {
    room_bytes: AtomicU64,
    ended: Mutex<Vec<EndedSegment>>,
}

impl SegmentStore for Store {
    fn make_room(&self, bytes: u64) -> bool {
        // Relaxed, like the others: the test has one thread.
        let room_bytes = self.room_bytes.load(Ordering::Relaxed);
        let rest = room_bytes.checked_sub(bytes);
        rest.is_some_and(|rest| {
            self.room_bytes.store(rest, Ordering::Relaxed);
            true
        })
    }

    fn make_room_on_disk(&self, _error: &io::Error) -> bool {
        false
    }

    fn segment_ended(&self, ended: EndedSegment) {
        self.ended.lock().push(ended);
    }
}

/// A session with a producer, which writes into segments.
struct Segmented {
    world: World,
    producer: TestProducer,
    session: TestSession,
    folder: Folder,
    store: Arc<Store>,
    count: usize,
}

impl Segmented {
    fn start(config: &TraceConfig) -> Self {
        let world = World::new();
        let producer = world.producer("p");
        producer.register("ds");
        let folder = Folder::empty();
        let store = Arc::new(Store {
            room_bytes: AtomicU64::new(u64::MAX),
            ended: Mutex::default(),
        });
        let session = world.segment_session(config, output(&folder, 0, &store));
        Self {
            world,
            producer,
            session,
            folder,
            store,
            count: 1,
        }
    }

    fn writer(&self) -> TraceWriter {
        self.producer.writer("ds")
    }

    fn begin_segment(&mut self) {
        let output = output(&self.folder, self.count, &self.store);
        self.count += 1;
        self.world.service.begin_segment(self.session.id, output);
    }

    fn end_segment(&self) {
        self.world.service.end_segment(self.session.id);
    }

    fn pass(&self) {
        self.session.writes_once().unwrap();
    }

    /// Ends the session. Returns the texts in each segment, and the segments.
    fn end(self) -> (Vec<Vec<String>>, Vec<EndedSegment>) {
        self.session.disable();
        self.pass();
        let texts = |index| self.read(index).texts();
        let texts = (0..self.count).map(texts).collect();
        (texts, std::mem::take(&mut *self.store.ended.lock()))
    }

    fn read(&self, index: usize) -> ReadTrace {
        ReadTrace::of(self.folder.read(index.to_string()))
    }
}

fn output(folder: &Folder, index: usize, store: &Arc<Store>) -> TraceOutput {
    let file = File::create(folder.file(index.to_string())).unwrap();
    TraceOutput::of_segment(file.into(), store.clone())
}

/// Writes a packet with these flags, and hands it over.
fn write_flagged(writer: &mut TraceWriter, flags: SequenceFlags, text: &str) {
    writer.trace_packet(|packet| {
        packet.set_sequence_flags(flags.0 as u32);
        packet.for_testing(|event| {
            event.set_str(text);
        });
    });
    writer.flush();
}

#[test]
fn a_sequence_changes_where_it_starts_its_state() {
    let mut segmented = Segmented::start(&config());
    let (mut with_state, mut without) = (segmented.writer(), segmented.writer());
    write_flagged(&mut with_state, STARTS, "start 0");
    write(&mut without, "plain 0");
    without.flush();
    segmented.pass();
    segmented.begin_segment();
    write_flagged(&mut with_state, NEEDS, "needs 0");
    write(&mut without, "plain 1");
    without.flush();
    segmented.pass();
    write_flagged(&mut with_state, STARTS, "start 1");
    write_flagged(&mut with_state, NEEDS, "needs 1");
    segmented.pass();
    segmented.end_segment();
    let (texts, ended) = segmented.end();
    assert_eq!(texts[0], ["start 0", "plain 0", "needs 0"]);
    assert_eq!(texts[1], ["plain 1", "start 1", "needs 1"]);
    let read: Vec<_> = ended.iter().map(|it| it.counts.packets).collect();
    assert_eq!(read, [3, 3]);
}

#[test]
fn each_segment_has_the_packets_of_the_service_and_a_uuid() {
    let mut segmented = Segmented::start(&config());
    segmented.pass();
    segmented.begin_segment();
    segmented.pass();
    segmented.end_segment();
    segmented.session.disable();
    segmented.pass();
    let uuids: Vec<_> = (0..2)
        .map(|index| {
            use tracezero_core::protos::trace_packet::Data;
            let trace = segmented.read(index);
            let data = trace.data();
            let has = |is_it: fn(&Data<'_>) -> bool| data.iter().filter(|it| is_it(it)).count();
            assert_eq!(has(|it| matches!(it, Data::TraceConfig(_))), 1);
            assert_eq!(has(|it| matches!(it, Data::SystemInfo(_))), 1);
            assert_eq!(has(|it| matches!(it, Data::ClockSnapshot(_))), 1);
            assert!(has(|it| matches!(it, Data::TraceStats(_))) > 0);
            let uuid = data.iter().find_map(|it| match it {
                Data::TraceUuid(uuid) => Some((uuid.msb().unwrap(), uuid.lsb().unwrap())),
                _ => None,
            });
            uuid.unwrap()
        })
        .collect();
    assert_ne!(uuids[0].0, uuids[1].0);
    assert_eq!(uuids[0].1, uuids[1].1);
}

#[test]
fn a_packet_that_comes_after_its_segment_is_counted_and_marked() {
    let mut segmented = Segmented::start(&config());
    let mut writer = segmented.writer();
    write_flagged(&mut writer, STARTS, "start 0");
    segmented.pass();
    segmented.begin_segment();
    segmented.pass();
    segmented.end_segment();
    write_flagged(&mut writer, NEEDS, "too late");
    write_flagged(&mut writer, STARTS, "start 1");
    segmented.pass();
    let second = segmented.read(1);
    let losses: Vec<_> = second
        .packets()
        .iter()
        .filter_map(|it| it.previous_packet_dropped().unwrap())
        .collect();
    assert_eq!(losses.len(), 1);
    let (texts, ended) = segmented.end();
    assert_eq!(texts, [["start 0"], ["start 1"]]);
    let account = &ended[1].sequences[0];
    assert_eq!(
        (account.begun, account.read, account.undecodable),
        (2, 1, 1)
    );
}

#[test]
fn accounts_of_segments_add_up_to_that_of_the_session() {
    let mut segmented = Segmented::start(&config());
    let mut writers = [segmented.writer(), segmented.writer(), segmented.writer()];
    let mut random = super::harness::Random(7);
    for round in 0..60_u32 {
        for writer in &mut writers {
            if random.below(3) > 0 {
                let flags = if random.below(4) == 0 { STARTS } else { NEEDS };
                // Some rounds write more than the ring holds.
                let len = random.below(20_000) as usize;
                write_flagged(writer, flags, &"x".repeat(len));
            }
        }
        match random.below(6) {
            0 => segmented.begin_segment(),
            1 => segmented.end_segment(),
            _ if round % 2 == 0 => segmented.pass(),
            _ => {}
        }
    }
    segmented.session.disable();
    segmented.pass();
    let totals = segmented.session.stats().sequences;
    let ended = segmented.store.ended.lock();
    let sum =
        |of: fn(&SequenceAccount) -> u64, all: &[SequenceAccount]| all.iter().map(of).sum::<u64>();
    assert!(ended.len() > 5);
    for (name, of) in [
        ("begun", (|it| it.begun) as fn(&SequenceAccount) -> u64),
        ("read", |it| it.read),
        ("lost", SequenceAccount::lost),
        ("overwritten", |it| it.overwritten),
        ("undecodable", |it| it.undecodable),
    ] {
        let of_segments: u64 = ended.iter().map(|it| sum(of, &it.sequences)).sum();
        assert_eq!(of_segments, sum(of, &totals), "{name}");
    }
    assert!(sum(SequenceAccount::lost, &totals) > 0);
    for (index, segment) in ended.iter().enumerate() {
        let texts = segmented.read(index).texts().len() as u64;
        assert_eq!(segment.counts.packets, texts);
        let undecodable = sum(|it| it.undecodable, &segment.sequences);
        let read = sum(|it| it.read, &segment.sequences);
        assert!(
            read <= texts && texts <= read + undecodable,
            "segment {index}"
        );
    }
}

#[test]
fn packets_without_room_are_left_out_and_the_session_goes_on() {
    let mut segmented = Segmented::start(&config());
    let mut writer = segmented.writer();
    write_flagged(&mut writer, STARTS, "fits");
    segmented.pass();
    segmented.store.room_bytes.store(0, Ordering::Relaxed);
    write_flagged(&mut writer, STARTS, "no room");
    segmented.pass();
    assert_eq!(segmented.session.state(), Some(State::Started));
    segmented
        .store
        .room_bytes
        .store(u64::MAX, Ordering::Relaxed);
    write_flagged(&mut writer, STARTS, "room again");
    segmented.pass();
    segmented.begin_segment();
    let (texts, ended) = segmented.end();
    assert_eq!(texts[0], ["fits", "room again"]);
    let account = &ended[0].sequences[0];
    assert_eq!((account.begun, account.read, account.file_full), (3, 2, 1));
}

#[test]
fn a_full_disk_does_not_end_the_session() {
    let segmented = Segmented::start(&config());
    let mut writer = segmented.writer();
    write_flagged(&mut writer, STARTS, "fits");
    segmented.pass();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = TraceOutput::of_segment(full.into(), segmented.store.clone());
    let service = &segmented.world.service;
    service.begin_segment(segmented.session.id, output);
    write_flagged(&mut writer, STARTS, "no room");
    segmented.pass();
    assert_eq!(segmented.session.state(), Some(State::Started));
    let (texts, ended) = segmented.end();
    assert_eq!(texts[0], ["fits"]);
    let account = &ended[1].sequences[0];
    assert_eq!((account.begun, account.read, account.file_full), (1, 0, 1));
}

#[test]
fn the_older_segment_ends_before_packets_are_left_out() {
    let mut segmented = Segmented::start(&config());
    let mut writer = segmented.writer();
    write_flagged(&mut writer, STARTS, "start");
    segmented.pass();
    segmented.begin_segment();
    segmented.store.room_bytes.store(0, Ordering::Relaxed);
    segmented.pass();
    assert_eq!(segmented.store.ended.lock().len(), 1);
}

#[test]
fn a_session_with_segments_is_not_cloned() {
    let segmented = Segmented::start(&config());
    let source = CloneSource::Id(segmented.session.id);
    let refused = segmented.world.begin_clone(source, 0).finish();
    let Err(StartError::Session(error)) = refused else {
        panic!("cloned");
    };
    assert!(error.to_string().contains("copy those"), "{error}");
}
