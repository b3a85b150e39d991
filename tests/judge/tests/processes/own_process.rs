//! Processes that tests start: children by `fork`, and this executable as another process.
#![allow(unsafe_code)] // `fork` is a foreign function.

use std::env;
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use support::wait_for;

/// The environment variable with the path of the file that a process records into.
const TRACE_FILE: &str = "TRACEZERO_TEST_FILE";

/// The exit status of a child in which an assertion failed.
const FAILED: i32 = 101;

/// A forked child.
#[must_use = "it is to be waited for"]
pub struct Child {
    pid: Pid,
}

/// Forks. The child runs `work`, and exits like a process that has done its work.
pub fn fork(work: impl FnOnce()) -> Child {
    fork_here().unwrap_or_else(|| {
        let outcome = panic::catch_unwind(AssertUnwindSafe(work));
        let status = if outcome.is_ok() { 0 } else { FAILED };
        // SAFETY: `exit` runs the exit handlers of the parent, which must work in a child: that is
        // what is tested. Do not use `std::process::exit`: it waits for a lock of the standard
        // library, which stays locked in the child if another thread of the parent was starting or
        // ending during the fork.
        unsafe { libc::exit(status) }
    })
}

/// Forks. Returns `None` in the child, which continues from here.
pub fn fork_here() -> Option<Child> {
    // SAFETY: the child allocates and starts threads, which the C library supports after a fork. Of
    // the locks that other threads held, the child takes only those under test.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", io::Error::last_os_error());
    Pid::from_raw(pid).map(|pid| Child { pid })
}

impl Child {
    /// Waits until the child has exited. Panics if that takes too long, or if an assertion in the
    /// child failed.
    pub fn wait(self) {
        let status = self.wait_for_end();
        assert_eq!(status.exit_status(), Some(0), "of a forked child");
    }

    /// Waits until a signal has ended the child. Returns the signal's number.
    pub fn wait_for_signal(self) -> i32 {
        let status = self.wait_for_end();
        status.terminating_signal().expect("it ends by a signal")
    }

    /// Waits until the child has exited. Returns its exit status.
    pub fn wait_for_exit_status(self) -> i32 {
        let status = self.wait_for_end();
        status.exit_status().expect("it exits")
    }

    fn wait_for_end(self) -> WaitStatus {
        let look = || waitpid(Some(self.pid), WaitOptions::NOHANG).unwrap();
        if let Some((_, status)) = wait_for(look) {
            return status;
        }
        let folder = format!("/proc/{}", self.pid.as_raw_nonzero());
        let read = |name| fs::read_to_string(format!("{folder}/{name}")).unwrap_or_default();
        // If the child waits for a lock, the lock's address is an argument of the system call.
        let (place, system_call) = (read("wchan"), read("syscall"));
        kill_process(self.pid, Signal::KILL).unwrap();
        panic!("a forked child hangs in {place}, system call {system_call}");
    }
}

/// Returns a command that runs the ignored test `role` (its path in this executable) in a process
/// of its own, alone on the main thread, which records into `file`.
pub fn process(role: &str, file: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([
            role,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(TRACE_FILE, file);
    command
}

/// Returns the file that this process must record into, if `process` has started it.
pub fn file_of_process() -> Option<PathBuf> {
    env::var_os(TRACE_FILE).map(PathBuf::from)
}

/// Returns a path for a file of a test.
pub fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
