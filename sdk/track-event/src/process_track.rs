//! The descriptors of the tracks of this process and its threads.

use std::path::Path;
use std::sync::LazyLock;

use crate::identity::{self, Kind};
use tracezero_core::protos::TrackDescriptor;

/// Name and command line of this process. Read once, because the descriptor is written many times.
static PROCESS: LazyLock<Process> = LazyLock::new(|| {
    let cmdline: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let program = cmdline.first().map(Path::new);
    let name = program.and_then(Path::file_name);
    Process {
        name: name.map(|name| name.to_string_lossy().into_owned()),
        cmdline,
    }
});

struct Process {
    name: Option<String>,
    cmdline: Vec<String>,
}

/// Returns the uuid of the track of a thread of this process.
pub(super) fn thread_uuid(tid: i32) -> u64 {
    identity::of_process(Kind::Thread, u64::from(tid as u32))
}

/// Returns the calling thread's id in the system.
pub(super) fn current_tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

pub(super) fn describe_process(out: &mut TrackDescriptor<'_>) {
    out.process(|process| {
        process.set_pid(std::process::id() as i32);
        if let Some(name) = &PROCESS.name {
            process.set_process_name(name);
        }
        for argument in &PROCESS.cmdline {
            process.add_cmdline(argument);
        }
    });
}

pub(super) fn describe_thread(tid: i32, name: &str, out: &mut TrackDescriptor<'_>) {
    out.thread(|thread| {
        thread.set_pid(std::process::id() as i32);
        thread.set_tid(tid);
        if !name.is_empty() {
            thread.set_thread_name(name);
        }
    });
}
