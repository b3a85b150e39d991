//! A session that always records, and writes a file only when something goes wrong: a trigger saves
//! a snapshot of the newest events, and recording goes on.
//!
//! `cargo run --example trigger_snapshot` writes `trigger_snapshot.pftrace`.

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use tracezero::{
    BufferConfig, TraceConfig, Trigger, TriggerConfig, TriggerMode, activate_trigger, counter, span,
};

const SLOW_REQUEST: &str = "slow_request";

fn main() -> Result<(), Box<dyn Error>> {
    let triggers = TriggerConfig::new(TriggerMode::CloneSnapshot, Duration::from_secs(3600))
        .add_trigger(Trigger::new(SLOW_REQUEST));
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256)) // KiB: the newest events
        .record_all()
        .triggers(triggers)
        .record_in_memory()?;
    let (saved, wait) = mpsc::channel();
    session.control().on_trigger(move |snapshot| {
        let outcome = snapshot.and_then(|snapshot| {
            snapshot.write_to("trigger_snapshot.pftrace")?;
            Ok(snapshot.events())
        });
        // The receiver may be gone when a second snapshot is taken.
        let _ = saved.send(outcome);
    });

    for request in 0..1000_u32 {
        let took_ms = serve(request);
        if took_ms > 100 {
            activate_trigger(SLOW_REQUEST); // may be called anywhere in the program
            let events = wait.recv()??;
            println!("request {request} took {took_ms} ms: {events} events in the snapshot");
        }
    }
    Ok(())
}

/// Pretends to answer a request. Returns the milliseconds that it pretends to have taken.
fn serve(request: u32) -> u32 {
    let _span = span!("server", "request", number = request);
    let took_ms = if request == 900 { 250 } else { request % 50 };
    counter!("server", "took_ms", took_ms);
    took_ms
}
