//! The program that records: spans in tight loops, through a daemon.
//!
//! The program says `started`, then `done` with its figures, and waits for a line before it ends. The program
//! in `producer.cc` does the same with the C++ library.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::track_event::{EventContext, TrackEvent, TrackEventDebugArg};
use perfetto_sdk::{scoped_track_event, track_event_categories};
use rivals::recorders::Sdk;
use tracezero::System;

use crate::Result;

track_event_categories! {
    pub mod categories {
        ("test", "What is measured", []),
    }
}
// The event macros expect the categories under this name.
use categories as perfetto_te_ns;

/// Records with an SDK of this language.
pub fn record(sdk: Sdk, threads: usize, spans: u64, memory_kib: Option<u32>) -> Result<()> {
    match sdk {
        Sdk::Tracezero => {
            let mut builder = System::builder();
            if let Some(kib) = memory_kib {
                builder = builder.shared_memory_hint(kib * 1024, 4096);
            }
            let system = builder.connect()?;
            wait_until(|| tracezero::enabled!("test"));
            let took = run(threads, spans, |index| {
                let _span = tracezero::span!("test", "work", index);
            });
            let stats = system.stats();
            println!(
                "done {} {} {}",
                took.as_nanos(),
                stats.waited.as_nanos(),
                stats.packets.drop_episodes
            );
            wait_for_line()
        }
        Sdk::Binding => {
            let mut arguments = ProducerInitArgsBuilder::new().backends(Backends::SYSTEM);
            if let Some(kib) = memory_kib {
                arguments = arguments.shmem_size_hint_kb(kib);
            }
            Producer::init(arguments.build());
            TrackEvent::init();
            categories::register()?;
            wait_until(|| categories::is_category_enabled(0));
            let took = run(threads, spans, |index| {
                scoped_track_event!("test", "work", |event: &mut EventContext| {
                    event.add_debug_arg("index", TrackEventDebugArg::Uint64(index));
                });
            });
            println!("done {}", took.as_nanos());
            wait_for_line()
        }
        Sdk::Cpp => Err("producer.cc is the program of this SDK".into()),
    }
}

/// Calls `record` in loops of several threads. Returns how long the slowest one took.
fn run(threads: usize, spans: u64, record: impl Fn(u64) + Sync) -> Duration {
    println!("started");
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..spans).for_each(&record));
        }
    });
    start.elapsed()
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Keeps the process until the trace was read: how an SDK behaves at an exit is not the subject.
fn wait_for_line() -> Result<()> {
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}
