//! The program that is recorded.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::daemon::PrivateDaemon;
use crate::error::ToolError;
use crate::signals::Signals;

/// How long a program may go on after a signal has asked it to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A program that is running.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    /// The number of signals that were passed on.
    passed_on: u32,
    /// The time at which the first signal was passed on.
    asked_to_end: Option<Instant>,
}

/// The state of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    Ended(ExitStatus),
    /// The program still runs, although a signal has asked it to end. The command does not wait any
    /// more.
    IsLeft,
}

impl Program {
    /// Starts a program. The program, and all programs that it starts, record for `daemon`.
    pub(super) fn start(command: &[OsString], daemon: &PrivateDaemon) -> io::Result<Self> {
        let (program, args) = command.split_first().expect("clap asks for one");
        let child = Command::new(program)
            .args(args)
            .envs(daemon.environment())
            .spawn()?;
        Ok(Self {
            child,
            passed_on: 0,
            asked_to_end: None,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Passes new signals on to the program. Returns the state of the program.
    pub(super) fn look(&mut self, signals: &Signals) -> Result<State, ToolError> {
        let ended = self.child.try_wait();
        if let Some(status) = ended.map_err(|source| ToolError::Program { source })? {
            return Ok(State::Ended(status));
        }
        let count = signals.count();
        if self.passed_on < count {
            self.passed_on = count;
            self.asked_to_end.get_or_insert_with(Instant::now);
            self.pass_on(signals.last());
        }
        let is_late = self
            .asked_to_end
            .is_some_and(|asked| asked.elapsed() >= END_LIMIT);
        // A user who sends a second signal does not want to wait.
        Ok(match is_late || self.passed_on > 1 {
            true => State::IsLeft,
            false => State::Runs,
        })
    }

    fn pass_on(&self, signal: Option<Signal>) {
        // A terminal sends SIGINT to the program as well as to this command.
        let is_from_terminal = signal == Some(Signal::INT) && io::stdin().is_terminal();
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (false, Some(signal), Some(pid)) = (is_from_terminal, signal, pid) {
            // Fails if the program has ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until the program has ended or is left running. Its recording has ended before.
    pub(super) fn wait(mut self, signals: &Signals) -> Result<State, ToolError> {
        loop {
            match self.look(signals)? {
                State::Runs => std::thread::sleep(super::TICK),
                state => return Ok(state),
            }
        }
    }
}

/// Returns the exit status for a shell: that of a program, or 128 and the number of the signal that
/// has ended it.
pub(super) fn shell_status(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
