//! The signals that ask the program to end.

use std::io;

use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the program to end: SIGINT, SIGTERM and SIGHUP. They do not end it by themselves, so that
/// temporary files are removed.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. Returns its number.
    pub(crate) async fn next(&mut self) -> u8 {
        let kind = select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hang_up.recv() => SignalKind::hangup(),
        };
        kind.as_raw_value() as u8
    }
}
