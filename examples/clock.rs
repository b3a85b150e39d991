//! The two clocks that events can use: the system's clock, and the processor's time-stamp counter,
//! which is cheaper to read.
//!
//! `cargo run --release --example clock` writes `clock.pftrace`. It records with both clocks. In
//! the trace, the events of both clocks are on one time line.

use std::time::{Duration, Instant};

use tracezero::{Clock, Session, instant, span};

const SPANS: u32 = 100_000;

fn main() -> Result<(), tracezero::Error> {
    let session = Session::record_to_file("clock.pftrace")?;
    println!("{:?}: {:?} for each span", Clock::of_events(), per_span());
    // If the counter is not reliable on this machine, events keep the system's clock.
    match Clock::Tsc.use_for_events() {
        Ok(()) => println!("{:?}: {:?} for each span", Clock::of_events(), per_span()),
        Err(reason) => println!("{reason}"),
    }
    println!("{}", session.finish()?);
    Ok(())
}

fn per_span() -> Duration {
    instant!("clock", "begin", clock = ?Clock::of_events());
    let began = Instant::now();
    for _ in 0..SPANS {
        let _span = span!("clock", "span");
    }
    began.elapsed() / SPANS
}
