//! Where events are drawn: tracks of the process, its threads and its counters.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::LazyLock;

use crate::protos::{TrackDescriptor, counter_descriptor};

/// What is known of this process. Found once: descriptors are written again and again.
static PROCESS: LazyLock<Process> = LazyLock::new(|| {
    let cmdline: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let program = cmdline.first().map(Path::new);
    let name = program.and_then(Path::file_name);
    Process {
        // The keys of a hash map's hasher are random.
        uuid: RandomState::new().hash_one(std::process::id()),
        name: name.map(|name| name.to_string_lossy().into_owned()),
        cmdline,
    }
});

struct Process {
    /// What tells this process from all others: a process id alone comes again.
    uuid: u64,
    name: Option<String>,
    cmdline: Vec<String>,
}

fn process_uuid() -> u64 {
    PROCESS.uuid
}

/// The track of a thread of this process.
pub(super) fn thread_uuid(tid: i32) -> u64 {
    mix(process_uuid() ^ u64::from(tid as u32))
}

/// The track of a counter of this process.
pub(super) fn counter_uuid(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        // FNV-1a.
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(process_uuid() ^ hash)
}

/// Spreads a difference in any bit over all bits (the finalizer of splitmix64). One to one, so
/// distinct threads have distinct tracks.
const fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Thread id of the calling thread, as the system numbers it.
pub(super) fn current_tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

pub(super) fn describe_process(track: &mut TrackDescriptor<'_>) {
    track.set_uuid(process_uuid());
    track.process(|process| {
        process.set_pid(std::process::id() as i32);
        if let Some(name) = &PROCESS.name {
            process.set_process_name(name);
        }
        for argument in &PROCESS.cmdline {
            process.add_cmdline(argument);
        }
    });
}

/// Describes the calling thread, whose id is `tid`.
pub(super) fn describe_thread(tid: i32, track: &mut TrackDescriptor<'_>) {
    track.set_uuid(thread_uuid(tid));
    track.set_parent_uuid(process_uuid());
    track.thread(|thread| {
        thread.set_pid(std::process::id() as i32);
        thread.set_tid(tid);
        if let Some(name) = std::thread::current().name() {
            thread.set_thread_name(name);
        }
    });
}

pub(super) fn describe_counter(name: &str, uuid: u64, track: &mut TrackDescriptor<'_>) {
    track.set_uuid(uuid);
    track.set_parent_uuid(process_uuid());
    track.set_static_name(name);
    track.counter(|counter| {
        counter.set_unit(counter_descriptor::Unit::COUNT);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_differ_by_thread_and_by_counter() {
        assert_ne!(thread_uuid(1), thread_uuid(2));
        assert_ne!(counter_uuid("a"), counter_uuid("b"));
        assert_eq!(counter_uuid("a"), counter_uuid("a"));
    }
}
