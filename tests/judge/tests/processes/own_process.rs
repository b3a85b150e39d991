//! Processes that tests start: children by `fork`, and this executable anew.
#![allow(unsafe_code)] // `fork` is a foreign function.

use std::env;
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use support::wait_for;

/// Names the file that a process of its own records into.
const TRACE_FILE: &str = "TRACEZERO_TEST_FILE";

/// What a child exits with in which an assertion failed.
const FAILED: i32 = 101;

/// A child that was forked.
#[must_use = "it is to be waited for"]
pub struct Child {
    pid: Pid,
}

/// Forks. The child does `work` and exits, as a process does that has done its work.
pub fn fork(work: impl FnOnce()) -> Child {
    fork_here().unwrap_or_else(|| {
        let outcome = panic::catch_unwind(AssertUnwindSafe(work));
        let status = if outcome.is_ok() { 0 } else { FAILED };
        // SAFETY: hooks that are called at the exit are what is tested. `std::process::exit` would wait for a lock of
        // the standard library, which another thread of the parent held if it was starting or ending.
        unsafe { libc::exit(status) }
    })
}

/// Forks; `None` in the child, which goes on from here.
pub fn fork_here() -> Option<Child> {
    // SAFETY: the child allocates and starts threads, which the C library provides for. Of the locks
    // that other threads held, it takes none but those under test.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", io::Error::last_os_error());
    Pid::from_raw(pid).map(|pid| Child { pid })
}

impl Child {
    /// Waits until it has exited; fails if that takes too long, or an assertion in it failed.
    pub fn wait(self) {
        let status = self.wait_for_end();
        assert_eq!(status.exit_status(), Some(0), "of a forked child");
    }

    /// Waits until a signal has ended it, and returns the signal's number.
    pub fn wait_for_signal(self) -> i32 {
        let status = self.wait_for_end();
        status.terminating_signal().expect("it ends by a signal")
    }

    /// Waits until it has exited, and returns what with.
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
        // The address of a lock is an argument of the system call.
        let (place, system_call) = (read("wchan"), read("syscall"));
        kill_process(self.pid, Signal::KILL).unwrap();
        panic!("a forked child hangs in {place}, system call {system_call}");
    }
}

/// The test `role` of this executable, by its path in it, as a process of its own, alone in its main thread, which
/// records into `file`.
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

/// The file that this process is to record into, if it is one that `process` has started.
pub fn file_of_process() -> Option<PathBuf> {
    env::var_os(TRACE_FILE).map(PathBuf::from)
}

/// A path for a file of a test.
pub fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
