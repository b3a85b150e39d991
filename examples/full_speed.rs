//! Threads record at full speed into a file. The file sometimes lags behind. The session then takes
//! more memory, so no event is lost, and the report says how much memory it took. Above the limit
//! set here (64 MiB), threads would wait for the file; after waiting for a second they would drop
//! packets.
//!
//! `cargo run --release --example full_speed` writes `full_speed.pftrace`.

use std::thread;
use std::time::Duration;

use tracezero::{BufferConfig, TraceConfig, span};

const THREADS: u32 = 4;
const SPANS: u32 = 10_000;

fn main() -> Result<(), tracezero::Error> {
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024).grow_to(64 * 1024)) // KiB
        .record_all()
        .wait_limit(Duration::from_secs(1)) // `never_wait()`: drop packets at once
        .record_to_file("full_speed.pftrace")?;

    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in 0..SPANS {
                    let _span = span!("speed", "step", number, thread);
                }
            });
        }
    });

    let report = session.finish()?;
    println!("{report}"); // 80000 events, 1641971 bytes, 0 lost: full_speed.pftrace
    let memory = report.memory;
    println!(
        "{} MiB of buffers, threads waited {:?}",
        memory.peak_bytes >> 20,
        memory.waited
    );
    Ok(())
}
