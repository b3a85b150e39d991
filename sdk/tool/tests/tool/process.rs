//! Runs the tool as a process.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a run of the tool.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.stdout).unwrap()
    }

    /// Expects exit status 0 and an empty standard error.
    #[track_caller]
    pub(crate) fn fine(self) -> Self {
        assert_eq!((self.status, self.stderr.as_str()), (0, ""));
        self
    }
}

pub(crate) fn command<A: AsRef<OsStr>>(args: &[A]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracezero"));
    command.args(args);
    command
}

/// Runs the tool. Replaces the argument `FILE` by the path `file`.
pub(crate) fn run_on(file: &Path, args: &[&str]) -> Run {
    let file = file.to_str().unwrap();
    let args: Vec<_> = args
        .iter()
        .map(|arg| if *arg == "FILE" { file } else { *arg })
        .collect();
    run(&args)
}

pub(crate) fn run<A: AsRef<OsStr>>(args: &[A]) -> Run {
    run_with_input(args, b"")
}

pub(crate) fn run_with_input<A: AsRef<OsStr>>(args: &[A], input: &[u8]) -> Run {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // Fails if the command closes its input without reading it.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    });
    Run {
        status: output.status.code().unwrap(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
