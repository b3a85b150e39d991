//! A program that controls its own shutdown. It handles SIGINT and SIGTERM itself, finishes its
//! recordings when it shuts down, and reports errors of trace files in its own way.
//!
//! `cargo run --example shutdown` writes `shutdown.pftrace`. By default, the SDK would finish the
//! file on both signals, and the process would end by the signal.

use std::mem;

use tracezero::{Session, finish_recordings, instant, leave_signals_alone, on_error};

fn main() -> Result<(), tracezero::Error> {
    leave_signals_alone();
    on_error(|error| eprintln!("a trace is not complete: {error}"));

    let session = Session::record_to_file("shutdown.pftrace")?;
    instant!("app", "at work");
    // Imitates a program whose shutdown code has no access to the session.
    mem::forget(session);
    shut_down();
    Ok(())
}

/// Stands for a handler of SIGTERM, for example with `tokio` or `signal-hook`.
fn shut_down() {
    instant!("app", "shutting down");
    if !finish_recordings() {
        eprintln!("files are still being written after two seconds");
    }
}
