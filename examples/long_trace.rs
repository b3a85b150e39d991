//! A long recording: the SDK regularly moves events from the ring in memory into a file, so the
//! file grows and the memory does not. The session ends after a given time, or when the file is
//! large enough.
//!
//! `cargo run --example long_trace` writes `long_trace.pftrace`.

use std::error::Error;
use std::thread;
use std::time::Duration;

use tracezero::{BufferConfig, SessionState, TraceConfig, counter, span};

fn main() -> Result<(), Box<dyn Error>> {
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024)) // KiB, room for the events of a few periods
        .record_all()
        .file_write_period(Duration::from_millis(100))
        .max_file_size_bytes(4 << 20)
        .duration(Duration::from_secs(1))
        .record_to_file("long_trace.pftrace")?;

    let mut step = 0_u64;
    while session.control().state() == SessionState::Started {
        let _span = span!("app", "step", number = step);
        counter!("app", "steps", step);
        step += 1;
        if step.is_multiple_of(100) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    println!("{}", session.finish()?);
    Ok(())
}
