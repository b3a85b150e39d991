//! Runs the program as a process.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Expects exit status 0 and an empty standard error. Returns the standard output.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!((self.status, self.stderr.as_str()), (0, ""));
        self.stdout
    }

    /// Expects exit status 0. Returns the standard output.
    #[track_caller]
    pub(crate) fn answer(self) -> String {
        assert_eq!(self.status, 0, "{}", self.stderr);
        self.stdout
    }

    /// Expects an error, exit status 2 and no output. Returns the error.
    #[track_caller]
    pub(crate) fn error(self) -> String {
        assert_eq!(
            (self.status, self.stdout.as_str()),
            (2, ""),
            "{}",
            self.stderr
        );
        let error = self
            .stderr
            .lines()
            .find_map(|line| line.strip_prefix("error: "));
        error
            .unwrap_or_else(|| panic!("no error: {}", self.stderr))
            .to_owned()
    }
}

pub(crate) fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracezero-query"));
    command.args(args);
    command
}

/// Runs the program without input.
pub(crate) fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    run_with_input(args, b"")
}

pub(crate) fn run_with_input<A: AsRef<OsStr>>(
    args: impl IntoIterator<Item = A>,
    input: &[u8],
) -> Run {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // Fails if the program ends without reading its input.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    });
    Run {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
