//! Accounts for every packet: the statistics of a session while it runs, and the account of each
//! sequence at its end.
//!
//! `cargo run --example statistics` writes `statistics.pftrace`, which contains the same numbers.

use std::error::Error;
use std::thread;

use tracezero::{BufferConfig, TraceConfig, instant};

fn main() -> Result<(), Box<dyn Error>> {
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64)) // KiB: far too small for what follows
        .record_all()
        .record_in_memory()?;

    let mut threads = Vec::new();
    for (name, events) in [("idle", 10), ("busy", 10_000)] {
        let work = move || {
            for number in 0..events {
                instant!("app", "step", number = number);
            }
        };
        threads.push(thread::Builder::new().name(name.to_owned()).spawn(work)?);
    }
    for thread in threads {
        thread.join().expect("it only traces");
    }

    let stats = session.control().stats();
    for buffer in &stats.buffers {
        println!(
            "{} of {} bytes written are overwritten",
            buffer.bytes_overwritten, buffer.bytes_written
        );
    }
    for sequence in &stats.sequences {
        println!("{sequence}"); // the account: begun = buffered + in flight + overwritten + ...
    }

    let (trace, report) = session.finish();
    std::fs::write("statistics.pftrace", trace)?;
    println!("{report:#}"); // one line in all, and one per sequence with losses
    Ok(())
}
