//! Signals that request a snapshot. The signal handler sets a flag and wakes a thread, which
//! submits the request.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};

use super::error::FlightError;
use super::request_queue::{Request, RequestQueue};
use super::running;
use tracezero_core::own_thread;

/// A signal that can request a snapshot. The process continues, whatever the signal's default
/// action is. So `SIGTERM` and `SIGINT`, which are to end the process, are not among these signals.
/// If they have their default action, they save a snapshot as
/// [`snapshot_on_exit`](crate::FlightRecorderBuilder::snapshot_on_exit) says. An application that
/// handles them must request a snapshot itself before it exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// Prints the name that `kill` uses.
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

/// A thread that waits for signals until it is stopped.
pub(super) struct SignalThread {
    handle: Handle,
    thread: JoinHandle<()>,
}

impl SignalThread {
    pub(super) fn start(asked: &[Signal], queue: &Arc<RequestQueue>) -> Result<Self, FlightError> {
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
        let queue = Arc::clone(queue);
        let asked = asked.to_vec();
        let run = move || {
            running::enter_own_thread();
            for number in signals.forever() {
                for signal in asked.iter().filter(|it| it.number() == number) {
                    queue.submit(Request::new(&format!("signal {signal}")));
                }
            }
        };
        let thread = own_thread::spawn("tracezero-signal", run).map_err(thread_error)?;
        Ok(Self { handle, thread })
    }

    pub(super) fn stop(self) {
        self.handle.close();
        // The thread does nothing that could panic.
        let _ = self.thread.join();
    }
}

fn thread_error(source: std::io::Error) -> FlightError {
    FlightError::Thread(Arc::new(source))
}
