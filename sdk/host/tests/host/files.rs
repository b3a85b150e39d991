//! Sessions that write files.

use std::fs::{self, File};
use std::io::Read as _;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::ioctl_fionread;
use rustix::pipe::{PipeFlags, pipe_with};
use tracezero_ipc::consumer_port::requests::Request;

use crate::consumer::recording;
use crate::daemon::TestDaemon;
use crate::descriptors::open_descriptors;
use crate::producer::{moved, packet_with};

/// Returns a configuration that records data source `ds` into a file. Disables periodic flushes:
/// they are aligned to the clock, so one may come in the middle of any test.
pub fn into_file(more: &str) -> String {
    let recording = recording("ds");
    format!("{recording} write_into_file: true write_flush_mode: WRITE_FLUSH_DISABLED {more}")
}

#[test]
fn the_file_is_complete_when_the_session_has_ended() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    for round in 0..10 {
        let mut consumer = daemon.consumer();
        let trace = daemon.folder.file(format!("trace-{round}"));
        let file = File::create_new(&trace).unwrap();
        let enabled = consumer.enable_with(&into_file(""), file);
        let instance = producer.started();
        for number in 0..round {
            producer.write(&instance, number);
        }
        producer.sync();
        consumer.disable();
        assert_eq!(consumer.ended(enabled), None);
        let bytes = fs::read(&trace).unwrap();
        assert!(support::is_whole(&bytes));
        assert_eq!(support::numbers(&bytes), Vec::from_iter(0..round));
        producer.expect_stop(&instance);
        // The consumer itself can read no packets.
        assert!(consumer.read().is_empty());
    }
}

#[test]
fn the_daemon_creates_the_file_at_a_path() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let trace = daemon.folder.file("trace");
    let config = into_file(&format!("output_path: '{}'", trace.display()));
    let enabled = consumer.enable(&config);
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(support::numbers(&fs::read(&trace).unwrap()), [1]);
    // The daemon never overwrites a file, and accepts either a path or an open file, but not both.
    let mut other = daemon.consumer();
    let reason = other.refused(&config);
    assert!(reason.contains("exists"), "{reason}");
    let enabled = other.enable_with(&config, File::open("/dev/null").unwrap());
    let reason = other.ended(enabled).unwrap();
    assert!(reason.contains("give one"), "{reason}");
    assert_eq!(support::numbers(&fs::read(&trace).unwrap()), [1]);
}

#[test]
fn a_file_that_cannot_be_written_ends_the_session_with_a_reason() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let file = File::open(daemon.folder.write("trace", "")).unwrap();
    let enabled = consumer.enable_with(&into_file("file_write_period_ms: 100"), file);
    let reason = consumer.ended(enabled).expect("a reason");
    assert!(reason.contains("descriptor"), "{reason}");
    daemon.wait_for_log("its file has failed");
    consumer.call(&Request::FreeBuffers);
    assert!(daemon.state().sessions.is_empty());
}

#[test]
fn a_session_that_waits_to_start_writes_its_file_later() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let trace = daemon.folder.file("trace");
    let file = File::create_new(&trace).unwrap();
    let enabled = consumer.enable_with(&into_file("deferred_start: true"), file);
    let instance = producer.set_up();
    assert_eq!(consumer.call(&Request::StartTracing), Some(vec![]));
    producer.told();
    producer.write(&instance, 1);
    producer.sync();
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(support::numbers(&fs::read(&trace).unwrap()), [1]);
}

#[test]
fn the_file_is_closed_when_its_session_is_freed() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    for (index, config) in ["", "deferred_start: true"].iter().enumerate() {
        for closes in [false, true] {
            let name = format!("trace-{index}-{closes}");
            let mut consumer = daemon.consumer();
            let file = File::create_new(daemon.folder.file(&name)).unwrap();
            consumer.enable_with(&into_file(config), file);
            let instance = producer.set_up();
            let path = daemon.folder.file(&name);
            assert_eq!(open_descriptors(&path), 1, "{name}");
            if config.is_empty() {
                producer.told();
                producer.write(&instance, 1);
                producer.sync();
            }
            if closes {
                drop(consumer);
            } else {
                consumer.call(&Request::FreeBuffers);
            }
            support::wait_until(|| open_descriptors(&path) == 0);
            daemon.wait_for_sessions(0);
            producer.expect_stop(&instance);
            assert!(support::is_whole(&daemon.folder.read(&name)), "{name}");
        }
    }
}

/// Returns the number of threads of this process that write files.
fn file_threads() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let names =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.trim_end() == "tracezero-file")
        .count()
}

/// Returns a named pipe, open for reading and writing.
fn fifo(daemon: &TestDaemon) -> File {
    let path = daemon.folder.file("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    File::options().read(true).write(true).open(path).unwrap()
}

/// Waits until a pipe is full.
#[track_caller]
fn wait_until_full(pipe: &File) {
    support::wait_until(|| {
        let mut room = [PollFd::new(pipe, PollFlags::OUT)];
        poll(&mut room, Some(&Timespec::default())).unwrap() == 0
    });
}

#[test]
fn a_file_that_takes_nothing_holds_up_nobody_else() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let pipe = fifo(&daemon);
    let path = daemon.folder.file("fifo");
    let mut stuck = daemon.consumer();
    let config = into_file("file_write_period_ms: 100");
    stuck.enable_with(&config, pipe.try_clone().unwrap());
    let instance = producer.started();
    for number in 0..200 {
        producer.write_with(&instance, number, &"x".repeat(1024));
        producer.sync();
    }
    wait_until_full(&pipe);

    for round in 0..10 {
        let mut consumer = daemon.consumer();
        let enabled = consumer.enable(&recording("ds"));
        let instance = producer.started();
        producer.write(&instance, round);
        producer.sync();
        consumer.disable();
        producer.expect_stop(&instance);
        assert_eq!(consumer.ended(enabled), None);
        assert_eq!(consumer.read_numbers(), [round]);
        consumer.call(&Request::FreeBuffers);
        assert_eq!(daemon.state().num_sessions, 1);
    }

    // The session can be freed. Its thread still holds the file, and ends when somebody has read
    // the pipe.
    drop(stuck);
    producer.expect_stop(&instance);
    daemon.wait_for_sessions(0);
    assert_eq!(open_descriptors(&path), 2);
    support::wait_until(|| {
        let mut bytes = vec![0; ioctl_fionread(&pipe).unwrap() as usize];
        (&pipe).read_exact(&mut bytes).unwrap();
        open_descriptors(&path) == 1
    });
}

#[test]
fn a_producer_waits_for_a_file_that_is_slow() {
    const PACKETS: u64 = 500;
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let (trace, given) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let config = into_file("file_write_period_ms: 100");
    let enabled = consumer.enable_with(&config, given);
    let instance = producer.started();
    let mut trace = Some(File::from(trace));
    let mut reading = None;
    let mut other = daemon.consumer();
    for number in 0..PACKETS {
        producer.write_with(&instance, number, &"x".repeat(1024));
        let synced = producer.ask_to_sync();
        let mut answers_of_others = 0;
        while !producer.has_arrived(synced) {
            // The daemon serves another consumer meanwhile.
            other.state();
            answers_of_others += 1;
            if answers_of_others == 3
                && let Some(mut trace) = trace.take()
            {
                let mut bytes = Vec::new();
                reading = Some(thread::spawn(move || {
                    trace.read_to_end(&mut bytes).unwrap();
                    bytes
                }));
            }
        }
    }
    let reading = reading.expect("the producer has waited");
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    let bytes = reading.join().unwrap();
    assert_eq!(support::numbers(&bytes), Vec::from_iter(0..PACKETS));
}

#[test]
fn chunks_whose_commits_are_late_overwrite_nothing() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let trace = daemon.folder.file("trace");
    // The chunks in all pages of the producer would fill the ring three times.
    let config = "buffers { size_kb: 64 } data_sources { config { name: 'ds' } } \
                  write_into_file: true file_write_period_ms: 100";
    let enabled = consumer.enable_with(config, File::create_new(&trace).unwrap());
    let instance = producer.started();
    producer.register_writer(&instance);
    let page_count = producer.memory.as_ref().unwrap().geometry().page_count();
    let text = "x".repeat(3000);
    let places: Vec<_> = (0..page_count)
        .map(|page| producer.completed_chunk(page, &packet_with(u64::from(page), &text)))
        .collect();
    // The thread that writes the file first copies uncommitted chunks from the shared memory.
    support::wait_until(|| support::numbers(&fs::read(&trace).unwrap()).len() > 2);
    for place in places {
        producer.commit(&moved(&[place], instance.target));
        producer.sync();
    }
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    let bytes = fs::read(&trace).unwrap();
    assert_eq!(
        support::numbers(&bytes),
        Vec::from_iter(0..u64::from(page_count))
    );
}

#[test]
fn threads_end_with_the_sessions_that_are_freed() {
    let daemon = TestDaemon::start();
    for config in ["", "deferred_start: true"] {
        let mut consumer = daemon.consumer();
        let file = File::open("/dev/null").unwrap();
        consumer.enable_with(&into_file(config), file);
        consumer.call(&Request::FreeBuffers);
    }
    // The threads of other tests end, too.
    support::wait_until(|| file_threads() == 0);
}

#[test]
fn a_freed_file_says_nothing_about_the_next_session() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let mut freed = None;
    for round in 0..20 {
        let trace = daemon.folder.file(format!("trace-{round}"));
        let file = File::create_new(&trace).unwrap();
        let enabled = consumer.enable_with(&into_file(""), file);
        // Each request is answered, at the latest when the next session begins.
        if let Some(freed) = freed.take() {
            assert_eq!(consumer.ended(freed), None);
        }
        let instance = producer.started();
        producer.write(&instance, round);
        producer.sync();
        if round % 2 == 0 {
            // The thread of this file may still end when the next session has begun.
            consumer.call(&Request::FreeBuffers);
            freed = Some(enabled);
        } else {
            consumer.disable();
            assert_eq!(consumer.ended(enabled), None);
            assert_eq!(support::numbers(&fs::read(&trace).unwrap()), [round]);
            consumer.call(&Request::FreeBuffers);
        }
        producer.expect_stop(&instance);
    }
}
