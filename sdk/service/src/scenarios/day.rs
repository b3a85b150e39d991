//! Simulates a day of a busy service, on the test's clock. Producers connect and disconnect.
//! Sessions of all kinds begin and end, and are read, cloned and freed. The account of each session
//! covers every packet. At the end of the day, no producer, session or timer is left.
//!
//! With the environment variable `TRACEZERO_DAYS=30`, the test simulates a month.

use std::collections::BTreeMap;
use std::time::Duration;

use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, Trigger, TriggerConfig, TriggerMode};
use tracezero_core::coordination::{DataSourceDescriptor, ServiceControl as _};
use tracezero_core::ids::BufferId;
use tracezero_producer::TraceWriter;

use super::harness::{Random, TestProducer, TestSession, World, write};
use super::trace_file::TraceFile;
use crate::{CloneSource, SequenceAccount, State};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// The mean time between two operations.
const STEP_MS: u64 = 10_000;
const PRODUCERS_MAX: usize = 8;
/// The number of sessions that a user may have at the same time.
const SESSIONS_MAX: usize = 5;
const TRIGGER: &str = "go";

/// A producer, and its writers by their buffers.
struct Application {
    producer: TestProducer,
    writers: BTreeMap<BufferId, TraceWriter>,
    /// The number of data sources that the producer offers.
    data_sources: usize,
}

/// A session, and the test's own counts of its packets.
struct Recorded {
    session: TestSession,
    buffer: BufferId,
    /// The number of packets that were written for the session.
    written: u64,
    /// The number of packets that were read from the session.
    read: u64,
    file: Option<TraceFile>,
    is_clone: bool,
}

struct Day {
    world: World,
    random: Random,
    applications: Vec<Application>,
    sessions: Vec<Recorded>,
    /// The number of session names so far. The test uses it to make each name unique.
    named: u64,
    ended_sessions: u64,
    packets: u64,
    lost: u64,
}

impl Day {
    fn new(seed: u64) -> Self {
        Self {
            world: World::new(),
            random: Random(seed),
            applications: Vec::new(),
            sessions: Vec::new(),
            named: 0,
            ended_sessions: 0,
            packets: 0,
            lost: 0,
        }
    }

    fn step(&mut self) {
        let pause_ms = self.random.below(2 * STEP_MS);
        self.world.advance_ms(pause_ms);
        for recorded in &self.sessions {
            if recorded.file.is_some() {
                recorded.session.writes().unwrap();
            }
        }
        match self.random.below(16) {
            0 => self.connect(),
            1 => self.disconnect(),
            2 => self.change_data_sources(),
            3 => self.begin(),
            4 => self.end(),
            5 => self.clone_one(),
            6 => self.read_one(),
            7 => self.activate_trigger(),
            8 => self.ask_to_flush(),
            _ => self.write(),
        }
    }

    fn connect(&mut self) {
        if self.applications.len() < PRODUCERS_MAX {
            let producer = self.world.producer("application");
            producer.register_with(descriptor(&mut self.random));
            // Some producers never answer a flush. The service waits for them only for a limited
            // time.
            producer.ignore_flushes(self.random.below(8) == 0);
            self.applications.push(Application {
                producer,
                writers: BTreeMap::new(),
                data_sources: 1,
            });
        }
    }

    /// Disconnects a producer. Its writers either return their chunks before the connection ends,
    /// or after it, as if the process had been killed.
    fn disconnect(&mut self) {
        if let Some(index) = self.random.index(self.applications.len()) {
            let Application {
                producer, writers, ..
            } = self.applications.swap_remove(index);
            if self.random.below(2) == 0 {
                drop(writers);
                drop(producer);
            } else {
                let endpoint = producer.endpoint;
                let arbiter = producer.arbiter;
                drop(endpoint);
                drop(arbiter);
                drop(writers);
            }
        }
    }

    fn change_data_sources(&mut self) {
        let Some(index) = self.random.index(self.applications.len()) else {
            return;
        };
        let Application {
            producer,
            writers,
            data_sources,
        } = &mut self.applications[index];
        match self.random.below(2) {
            0 => {
                // Drop the writers, so that they return their chunks. The service does not flush a
                // data source that was unregistered.
                writers.clear();
                producer.endpoint.unregister_data_source("ds");
                *data_sources = data_sources.saturating_sub(1);
            }
            _ => {
                producer.register_with(descriptor(&mut self.random));
                *data_sources += 1;
            }
        }
    }

    fn begin(&mut self) {
        if self.sessions.len() >= SESSIONS_MAX {
            return;
        }
        let size_kib = 4 << self.random.below(6);
        let buffer = match self.random.below(4) {
            0 => BufferConfig::discard(size_kib),
            _ => BufferConfig::ring(size_kib),
        };
        let mut config = TraceConfig::empty()
            .add_buffer(buffer)
            .add_data_source(DataSourceConfig::new("ds"));
        let some_time = Duration::from_secs(1 + self.random.below(300));
        let kind = self.random.below(6);
        config = match kind {
            0 => config.duration(some_time),
            1 => config.flush_period(some_time),
            2 => {
                self.named += 1;
                config.unique_session_name(format!("session {}", self.named))
            }
            3 => {
                let triggers = TriggerConfig::new(TriggerMode::Stop, some_time);
                config.triggers(triggers.add_trigger(Trigger::new(TRIGGER)))
            }
            _ => config,
        };
        let file = (kind == 4).then(TraceFile::new);
        let session = match &file {
            Some(file) => self.world.file_session(config, file.output()),
            None => self.world.session(config),
        };
        let buffer = self.world.service.buffers(session.id)[0].id;
        self.sessions.push(Recorded {
            session,
            buffer,
            written: 0,
            read: 0,
            file,
            is_clone: false,
        });
    }

    fn write(&mut self) {
        let sessions = self.random.index(self.sessions.len());
        let (Some(application), Some(recorded)) =
            (self.random.index(self.applications.len()), sessions)
        else {
            return;
        };
        let recorded = &mut self.sessions[recorded];
        let Application {
            producer,
            writers,
            data_sources,
        } = &mut self.applications[application];
        let is_recorded = *data_sources > 0 && producer.endpoint.may_write_to(recorded.buffer);
        if !is_recorded || recorded.session.state() != Some(State::Started) {
            return;
        }
        let buffer = recorded.buffer;
        let writer = (writers.entry(buffer)).or_insert_with(|| producer.writer_to(buffer));
        let count = self.random.below(200);
        let text = "x".repeat(self.random.below(300) as usize);
        (0..count).for_each(|_| write(writer, &text));
        recorded.written += count;
        if self.random.below(4) == 0 {
            writers.remove(&buffer);
        }
    }

    fn ask_to_flush(&mut self) {
        if let Some(index) = self.random.index(self.sessions.len()) {
            self.sessions[index].session.flush(0);
        }
    }

    fn activate_trigger(&mut self) {
        if let Some(index) = self.random.index(self.applications.len()) {
            let endpoint = &self.applications[index].producer.endpoint;
            endpoint.activate_triggers(&[TRIGGER, "unknown"]);
        }
    }

    fn read_one(&mut self) {
        if let Some(index) = self.random.index(self.sessions.len()) {
            let recorded = &mut self.sessions[index];
            recorded.read += recorded.session.read().texts().len() as u64;
        }
    }

    fn clone_one(&mut self) {
        let room = self.sessions.len() < SESSIONS_MAX;
        let Some(index) = self.random.index(self.sessions.len()).filter(|_| room) else {
            return;
        };
        let source = &self.sessions[index];
        if source.file.is_some() || source.is_clone {
            return;
        }
        let clone = self
            .world
            .begin_clone(CloneSource::Id(source.session.id), 0);
        // If a producer does not answer, the flush ends after 5 s.
        self.world.advance_ms(6000);
        let session = clone.finish().unwrap();
        let buffer = self.world.service.buffers(session.id)[0].id;
        self.sessions.push(Recorded {
            session,
            buffer,
            written: self.sessions[index].written,
            read: 0,
            file: None,
            is_clone: true,
        });
    }

    /// Ends a session, reads the rest of its trace, and checks its account.
    fn end(&mut self) {
        let Some(index) = self.random.index(self.sessions.len()) else {
            return;
        };
        let mut recorded = self.sessions.swap_remove(index);
        let service = &self.world.service;
        match self.random.below(2) {
            0 => recorded.session.disable(),
            _ => service.flush_and_disable(recorded.session.id),
        }
        // If a producer does not answer, the flush ends after 5 s, and the stop after 5 s more.
        self.world.advance_ms(6000);
        self.world.advance_ms(6000);
        let is_over = !matches!(
            recorded.session.state(),
            Some(State::Started | State::Stopping | State::Configured)
        );
        assert!(is_over, "{:?}", recorded.session.state());
        if let Some(file) = &recorded.file {
            recorded.session.writes().unwrap();
            recorded.read = file.read().texts().len() as u64;
        } else {
            recorded.read += recorded.session.read().texts().len() as u64;
        }
        self.check_account(&recorded);
        self.ended_sessions += 1;
        let buffer = recorded.buffer;
        drop(recorded);
        for application in &mut self.applications {
            application.writers.remove(&buffer);
            assert!(!application.producer.endpoint.may_write_to(buffer));
        }
    }

    fn check_account(&mut self, recorded: &Recorded) {
        let accounts = recorded.session.stats().sequences;
        let sum = |count: fn(&SequenceAccount) -> u64| accounts.iter().map(count).sum::<u64>();
        let begun = sum(|account| account.begun);
        let read = sum(|account| account.read);
        let [buffered, in_flight] = [sum(|it| it.buffered), sum(|it| it.in_flight)];
        assert_eq!(begun, recorded.written, "{accounts:#?}");
        // If packets are left in the buffer, the session waited for a trigger. Such a session is
        // not read.
        if buffered == 0 {
            assert_eq!((read, in_flight), (recorded.read, 0), "{accounts:#?}");
        }
        self.packets += begun;
        self.lost += sum(SequenceAccount::lost);
    }

    /// Ends all sessions, disconnects all producers, and checks that nothing is left.
    fn close(&mut self) {
        while !self.sessions.is_empty() {
            self.end();
        }
        self.applications.clear();
        let state = self.world.service.service_state(0);
        assert!(state.producers.is_empty() && state.sessions.is_empty());
        assert_eq!(self.world.service.run_due_timers(), None, "a timer is left");
    }
}

fn descriptor(random: &mut Random) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: "ds".to_owned(),
        // Some data sources announce that they will report their stop, and never report it.
        notifies_stop: random.below(8) == 0,
        ..DataSourceDescriptor::default()
    }
}

#[test]
fn accounts_close_for_a_day() {
    let days = std::env::var("TRACEZERO_DAYS").map_or(1, |days| days.parse().expect("a number"));
    let mut day = Day::new(0x9e37_79b9_7f4a_7c15);
    for _ in 0..days * DAY_MS / STEP_MS {
        day.step();
    }
    day.close();
    let Day {
        ended_sessions,
        packets,
        lost,
        ..
    } = day;
    println!("{ended_sessions} sessions, {packets} packets, {lost} of them lost and counted");
    assert!(ended_sessions > 100 && packets > 10_000 && lost > 0);
}
