//! A program that decides itself how it ends: SIGINT and SIGTERM are its own, its recordings are
//! finished where it shuts down, and what goes wrong with their files is reported its way.
//!
//! `cargo run --example shutdown` writes `shutdown.pftrace`. Without all this, the SDK finishes the file
//! on both signals, and the process ends by them.

use std::mem;

use tracezero::{Session, finish_recordings, instant, leave_signals_alone, on_error};

fn main() -> Result<(), tracezero::Error> {
    leave_signals_alone();
    on_error(|error| eprintln!("a trace is not complete: {error}"));

    let session = Session::record_to_file("shutdown.pftrace")?;
    instant!("app", "at work");
    // As where the session belongs to somebody who is not asked any more.
    mem::forget(session);
    shut_down();
    Ok(())
}

/// Stands for the work of a SIGTERM handler, that of `tokio` or `signal-hook` for instance.
fn shut_down() {
    instant!("app", "shutting down");
    if !finish_recordings() {
        eprintln!("files are still being written after two seconds");
    }
}
