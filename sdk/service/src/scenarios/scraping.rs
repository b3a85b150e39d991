use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use support::wait_until;

use crate::{FlushOutcome, State};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::FlushFlags;
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{ChunkPlace, PageLayout, WritableChunk};

use super::harness::{TestSession, World, packet, write};
use super::manual_producer::{ManualProducer, header};

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(4096))
        .add_data_source(DataSourceConfig::new("ds"))
}

#[test]
fn a_flush_takes_what_writers_hold_and_no_packet_twice() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    let mut writer = producer.writer("ds");
    for text in ["1", "2", "3"] {
        write(&mut writer, text);
    }
    assert!(session.read().texts().is_empty());
    session.flush(0);
    assert_eq!(session.read().texts(), ["1", "2", "3"]);
    write(&mut writer, "4");
    write(&mut writer, "5");
    producer.ignore_flushes(true);
    let outcome = session.flush(100);
    assert!(session.read().texts().is_empty());
    world.advance_ms(100);
    assert_eq!(*outcome.lock(), Some(FlushOutcome::Failed));
    assert_eq!(session.read().texts(), ["4", "5"]);
    writer.flush();
    assert!(session.read().texts().is_empty());
}

#[test]
fn scrapes_beside_a_writer_take_every_packet_once_and_in_order() {
    const PACKETS: usize = 5000;
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    let mut writer = producer.writer("ds");
    let mut texts = Vec::new();
    thread::scope(|scope| {
        let writing = scope.spawn(move || {
            for number in 0..PACKETS {
                write(&mut writer, &number.to_string());
            }
        });
        while !writing.is_finished() {
            session.flush(0);
            texts.extend(session.read().texts());
        }
    });
    session.disable();
    texts.extend(session.read().texts());
    let expected: Vec<String> = (0..PACKETS).map(|number| number.to_string()).collect();
    assert!(texts == expected, "{} packets", texts.len());
}

#[test]
fn the_end_of_a_session_takes_what_writers_hold() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    let mut writer = producer.writer("ds");
    write(&mut writer, "held");
    session.disable();
    assert_eq!(session.read().texts(), ["held"]);
}

/// A producer that writes chunks by hand, and the session that records it.
struct Recorded {
    session: TestSession,
    producer: ManualProducer,
    target_buffer: BufferId,
}

impl Recorded {
    const WRITER: WriterId = WriterId(1);

    fn new(world: &World) -> Self {
        let producer = world.manual_producer("ds", 1);
        let session = world.session(config());
        let target_buffer = world.service.buffers(session.id)[0].id;
        producer.register_writer(Self::WRITER, target_buffer);
        Self {
            session,
            producer,
            target_buffer,
        }
    }

    fn chunk(&self) -> WritableChunk {
        let header = header(Self::WRITER, ChunkId(0));
        self.producer.chunk(0, PageLayout::One, header)
    }

    fn commit(&self, place: ChunkPlace) {
        self.producer.commit(place, self.target_buffer);
    }

    /// Returns the texts that can be read after a flush.
    fn flushed(&self) -> Vec<String> {
        let outcome = self.session.flush(0);
        assert_eq!(*outcome.lock(), Some(FlushOutcome::Succeeded));
        self.session.read().texts()
    }
}

#[test]
fn scrape_leaves_out_the_last_counted_packet() {
    let recorded = Recorded::new(&World::new());
    let mut chunk = recorded.chunk();
    chunk.append_packet(&packet("payload"));
    assert!(recorded.flushed().is_empty());
    chunk.publish_finished();
    assert_eq!(recorded.flushed(), ["payload"]);
    let place = chunk.complete();
    assert!(recorded.flushed().is_empty());
    recorded.commit(place);
    assert!(recorded.flushed().is_empty());
}

#[test]
fn complete_chunk_is_scraped_once_before_its_commit() {
    let recorded = Recorded::new(&World::new());
    let mut chunk = recorded.chunk();
    chunk.append_packet(&packet("payload"));
    let place = chunk.complete();
    assert_eq!(recorded.flushed(), ["payload"]);
    recorded.commit(place);
    assert!(recorded.flushed().is_empty());
}

#[test]
fn chunks_of_a_disconnected_producer_are_scraped() {
    let recorded = Recorded::new(&World::new());
    let mut chunk = recorded.chunk();
    chunk.append_packet(&packet("finished"));
    chunk.append_packet(&packet("not published"));
    drop(recorded.producer);
    assert_eq!(recorded.session.read().texts(), ["finished"]);
    drop(chunk);
}

/// Begins a chunk of a writer that is not registered, with one packet and the begin of another.
fn unregistered_chunk(producer: &ManualProducer) -> WritableChunk {
    let mut chunk = producer.chunk(0, PageLayout::One, header(WriterId(7), ChunkId(0)));
    chunk.append_packet(&packet("finished"));
    chunk.append_packet(&packet("not published"));
    chunk
}

#[test]
fn unregistered_writers_of_a_killed_process_wrote_to_its_only_buffer() {
    let world = World::new();
    let producer = world.manual_producer("ds", 1);
    let session = world.session(config());
    let chunk = unregistered_chunk(&producer);
    drop(producer);
    assert_eq!(session.read().texts(), ["finished"]);
    drop(chunk);
}

#[test]
fn unregistered_writers_of_a_killed_process_with_two_buffers_are_unknown() {
    let world = World::new();
    let producer = world.manual_producer("ds", 1);
    let sessions = [(), ()].map(|()| world.session(config()));
    let chunk = unregistered_chunk(&producer);
    drop(producer);
    for session in sessions {
        assert_eq!(session.read().texts(), Vec::<String>::new());
    }
    drop(chunk);
}

#[test]
fn unregistered_writers_of_an_ended_session_are_unknown() {
    let world = World::new();
    let producer = world.manual_producer("ds", 1);
    let ended = world.session(config());
    let chunk = unregistered_chunk(&producer);
    drop(ended);
    let session = world.session(config());
    drop(producer);
    assert_eq!(session.read().texts(), Vec::<String>::new());
    drop(chunk);
}

/// Flushes a session on another thread, and calls `meanwhile` while the scrape waits for the buffer.
fn during_a_scrape(world: &World, meanwhile: impl FnOnce(TestSession)) {
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    let buffer = world.service.buffers(session.id)[0].clone();
    let mut writer = producer.writer("ds");
    write(&mut writer, "held");
    let (service, id) = (Arc::clone(&world.service), session.id);
    producer.calls();
    thread::scope(|scope| {
        let flushing = buffer.with(|_| {
            let flushing = scope.spawn(move || {
                let outcome = Arc::new(Mutex::new(Vec::new()));
                let noted = Arc::clone(&outcome);
                service.flush(id, 0, FlushFlags::explicit(), move |it| {
                    noted.lock().push(it);
                });
                outcome
            });
            wait_until(|| !producer.calls().is_empty());
            meanwhile(session);
            flushing
        });
        let outcome = flushing.join().unwrap();
        assert_eq!(outcome.lock().len(), 1, "told once");
    });
}

#[test]
fn the_service_answers_while_it_scrapes() {
    let world = World::new();
    during_a_scrape(&world, |session| {
        let (answer, answered) = mpsc::channel();
        let service = Arc::clone(&world.service);
        let id = session.id;
        thread::spawn(move || {
            for _ in 0..1000 {
                answer.send(service.state(id)).unwrap();
            }
        });
        for _ in 0..1000 {
            let state = answered.recv_timeout(Duration::from_secs(10));
            assert_eq!(state, Ok(Some(State::Started)));
        }
        // Freeing it waits for the scrape.
        std::mem::forget(session);
    });
}

#[test]
fn a_session_can_be_freed_while_it_is_scraped() {
    let world = World::new();
    let freeing = Mutex::new(None);
    during_a_scrape(&world, |session| {
        let service = Arc::clone(&world.service);
        let id = session.id;
        *freeing.lock() = Some(thread::spawn(move || drop(session)));
        wait_until(|| service.state(id).is_none());
    });
    let freeing = freeing.into_inner().unwrap();
    freeing.join().unwrap();
    assert!(world.service.service_state(0).sessions.is_empty());
}
