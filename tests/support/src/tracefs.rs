//! Tests that control the kernel's tracer.

use std::fs::OpenOptions;
use std::process::Command;
use std::{env, thread};

/// Set in a process that has tracefs.
const INNER: &str = "TRACEZERO_TEST_HAS_TRACEFS";

/// Runs `test` where tracefs is mounted: in this process, or in another one that runs only the calling
/// test, with a mount of its own. That takes root; otherwise the test says that it is not run.
///
/// # Panics
///
/// If the test fails.
#[track_caller]
pub fn with_tracefs(test: impl FnOnce()) {
    let is_here = OpenOptions::new()
        .write(true)
        .open("/sys/kernel/tracing/tracing_on")
        .is_ok();
    if is_here {
        return test();
    }
    let thread = thread::current();
    let name = thread.name().unwrap_or_default();
    assert!(
        env::var_os(INNER).is_none(),
        "{name}: tracefs is mounted, and cannot be used"
    );
    let mount = "mount -t tracefs nodev /sys/kernel/tracing || exit 77; exec \"$0\" \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", mount])
        .arg(env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(INNER, "1")
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("1 passed"), "{name}: {text}");
        }
        // The exit status of a failed test.
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        }
        // No failure even where all tests must run: a machine may have no such kernel.
        _ => eprintln!("{name}: not run: needs tracefs, which only root can mount"),
    }
}
