//! Tests that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::{env, thread};

/// The environment variable that names a file, to which each test that is not run adds a line with
/// what it needs.
const VARIABLE: &str = "TRACEZERO_NOT_RUN";

/// Reports that this test is not run, because the machine lacks what it `needs`.
///
/// # Panics
///
/// If the environment variable `CI` is set: there, everything must run.
#[track_caller]
pub fn not_run(needs: &str) {
    assert!(env::var_os("CI").is_none(), "cannot run: needs {needs}");
    let thread = thread::current();
    let test = thread.name().unwrap_or_default();
    // Past the capture of the test's output, so that everybody sees it.
    let _ = writeln!(io::stderr(), "{test}: not run: needs {needs}");
    if let Some(path) = env::var_os(VARIABLE)
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{needs}");
    }
}
