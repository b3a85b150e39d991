//! A process that calls `exit` while its session is open, after one of its threads has panicked.
//! The SDK still finishes the file, and the slice of the panicked thread has its end.
//!
//! `cargo run --example exit` writes `exit.pftrace`.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use tracezero::{Session, instant, span};

/// A static is never dropped.
static SESSION: OnceLock<Session> = OnceLock::new();

fn main() -> Result<(), tracezero::Error> {
    let session = Session::record_to_file("exit.pftrace")?;
    assert!(SESSION.set(session).is_ok(), "it is set once");

    let worker = thread::spawn(|| {
        let _span = span!("exit", "a thread that panics");
        thread::sleep(Duration::from_millis(2));
        panic!("as this example wants it");
    });
    assert!(worker.join().is_err());

    instant!("exit", "the last event");
    // No destructor runs. The SDK still writes the events of this thread into the file.
    std::process::exit(0);
}
