//! Daemons for tests: where they listen, what they log, and how they end.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::Folder;

use crate::process::command;

/// The environment variables that the daemon reads. No test inherits them.
const VARIABLES: [&str; 4] = [
    "NOTIFY_SOCKET",
    "PERFETTO_CONSUMER_SOCK_NAME",
    "PERFETTO_PRODUCER_SOCK_NAME",
    "TRACED_NOTIFY_FD",
];

/// The longest wait for a datagram, longer than any start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that runs. It is killed in the end.
pub(crate) struct Running {
    child: Child,
    /// The log, if the test reads it.
    log: Option<BufReader<ChildStderr>>,
}

impl Running {
    /// Starts a daemon, and waits until it says where it listens.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut daemon = Self::spawn(command.stderr(Stdio::piped()));
        let line = daemon.line();
        assert!(line.contains(": listens for producers at "), "{line:?}");
        daemon
    }

    /// Starts a daemon, whose output goes where the command says.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = child.stderr.take().map(BufReader::new);
        Self { child, log }
    }

    /// Returns the standard output.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("a pipe")
    }

    /// Returns the next line of the log. It is empty if the daemon has ended.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let log = self.log.as_mut().expect("a log");
        log.read_line(&mut line).unwrap();
        line
    }

    /// Sends a signal, and expects that the daemon ends without an error.
    #[track_caller]
    pub(crate) fn end(mut self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).unwrap();
        let status = self.child.wait().unwrap();
        let mut rest = String::new();
        if let Some(log) = &mut self.log {
            log.read_to_string(&mut rest).unwrap();
        }
        assert_eq!(status.code(), Some(0), "{status}: {rest}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two sockets in a folder of their own.
pub(crate) struct Place {
    pub(crate) folder: Folder,
    pub(crate) producers: PathBuf,
    pub(crate) consumers: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = Folder::empty();
        Self {
            producers: folder.file("p"),
            consumers: folder.file("c"),
            folder,
        }
    }

    /// Returns a command with the addresses of both sockets, and more arguments.
    pub(crate) fn daemon(&self, more: &[&str]) -> Command {
        let mut command = daemon(more);
        command.arg("--producer-socket").arg(&self.producers);
        command.arg("--consumer-socket").arg(&self.consumers);
        command
    }

    #[track_caller]
    pub(crate) fn expect_listening(&self) {
        for path in [&self.producers, &self.consumers] {
            UnixStream::connect(path).unwrap();
        }
    }
}

/// Returns a command without addresses.
pub(crate) fn daemon(more: &[&str]) -> Command {
    let mut command = command(&["daemon"]);
    command.args(more).stdin(Stdio::null());
    without_variables(&mut command);
    command
}

pub(crate) fn without_variables(command: &mut Command) {
    for variable in VARIABLES {
        command.env_remove(variable);
    }
}

/// A service manager, which waits until the daemon says that it listens.
pub(crate) struct Manager(UnixDatagram);

impl Manager {
    pub(crate) fn new(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    #[track_caller]
    pub(crate) fn expect_ready(&self) {
        let mut message = [0; 64];
        let len = self.0.recv(&mut message).unwrap();
        assert_eq!(&message[..len], b"READY=1");
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&self) {
        self.0.set_nonblocking(true).unwrap();
        let nothing = self.0.recv(&mut [0; 64]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        self.0.set_nonblocking(false).unwrap();
    }
}

/// Runs a daemon that cannot start. Returns what it says.
#[track_caller]
pub(crate) fn failure(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    text
}
