//! Signals that ask for a snapshot. The signal handler sets a flag and wakes a thread, which asks.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};

use super::desk::{Desk, Request};
use super::error::FlightError;
use super::running;
use tracezero_core::own_thread;

/// A signal that can ask for a snapshot. The process goes on, whatever the signal does otherwise; so
/// those that are to end it (`SIGTERM`, `SIGINT`) are not among them. At their default action these save
/// what [`snapshot_on_exit`](crate::FlightRecorderBuilder::snapshot_on_exit) says; an application that
/// catches them takes a snapshot by itself before it exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// `SIGHUP`.
    Hangup,
    /// `SIGQUIT`, which `Ctrl-\` in a terminal sends.
    Quit,
    /// `SIGUSR1`.
    User1,
    /// `SIGUSR2`.
    User2,
}

impl Signal {
    const fn number(self) -> i32 {
        match self {
            Self::Hangup => SIGHUP,
            Self::Quit => SIGQUIT,
            Self::User1 => SIGUSR1,
            Self::User2 => SIGUSR2,
        }
    }
}

/// As `kill` names it.
impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hangup => "HUP",
            Self::Quit => "QUIT",
            Self::User1 => "USR1",
            Self::User2 => "USR2",
        })
    }
}

/// Waits for signals, until it is stopped.
pub(super) struct SignalThread {
    handle: Handle,
    thread: JoinHandle<()>,
}

impl SignalThread {
    pub(super) fn start(asked: &[Signal], desk: &Arc<Desk>) -> Result<Self, FlightError> {
        let mut signals = Signals::new::<[i32; 0], i32>([]).map_err(thread_error)?;
        let handle = signals.handle();
        for signal in asked {
            let number = signal.number();
            handle
                .add_signal(number)
                .map_err(|source| FlightError::Signal {
                    number,
                    source: Arc::new(source),
                })?;
        }
        let desk = Arc::clone(desk);
        let asked = asked.to_vec();
        let run = move || {
            running::enter_own_thread();
            for number in signals.forever() {
                for signal in asked.iter().filter(|it| it.number() == number) {
                    desk.ask(Request::new(&format!("signal {signal}")));
                }
            }
        };
        let thread = own_thread::spawn("tracezero-signal", run).map_err(thread_error)?;
        Ok(Self { handle, thread })
    }

    pub(super) fn stop(self) {
        self.handle.close();
        // It does nothing that panics.
        let _ = self.thread.join();
    }
}

fn thread_error(source: std::io::Error) -> FlightError {
    FlightError::Thread(Arc::new(source))
}
