//! A process with crash files forks in the middle of a packet. The child goes on and lives longer
//! than the parent, which is killed: the recovered trace has exactly the parent's packets.

use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{self, Stdio};

use judge::{ExtraSchema, judge};
use tracezero::crash::leftovers;
use tracezero::{DataSource as _, TraceConfig, data_source, protos};

use crate::own_process::{file_of_process, fork_here, process};

struct Packets;
data_source!(Packets, "com.example.packets");

/// Longer than several chunks, so that the child fills the chunk that it inherited.
const LONG_BYTES: usize = 20_000;

/// The program. The file is its directory for crash files.
#[test]
#[ignore = "started by another test"]
fn forks_in_a_packet() {
    let Some(directory) = file_of_process() else {
        return;
    };
    let session = TraceConfig::default()
        .crash_safe_in(directory)
        .record_in_memory()
        .unwrap();
    write("before");
    let mut is_child = false;
    Packets::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                is_child = fork_here().is_none();
                let letter = if is_child { "c" } else { "p" };
                event.set_str(&letter.repeat(LONG_BYTES));
            });
        });
    });
    if is_child {
        (0..1000).for_each(|_| write("child"));
        drop(session);
        // The test closes this pipe when it has recovered the trace.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    }
    (0..1000).for_each(|_| write("after"));
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .unwrap();
}

fn write(text: &str) {
    Packets::trace(|cx| {
        cx.packet(|packet: &mut protos::TracePacket<'_>| {
            packet.for_testing(|event| {
                event.set_str(text);
            });
        });
    });
}

#[test]
fn child_of_a_killed_process_leaves_its_crash_files_alone() {
    let name = format!("/dev/shm/tracezero-test-fork-{}", process::id());
    let directory = PathBuf::from(name);
    let mut program = process("crash_files::forks_in_a_packet", &directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let child_lives = program.stdin.take();
    program.wait().unwrap();

    let leftover = leftovers(&directory).unwrap().remove(0);
    let trace = leftover.recover_into(&directory).unwrap().remove(0);
    assert_eq!((trace.damages.len(), trace.lost_packets()), (0, 0));
    let verdict = judge(&fs::read(&trace.path).unwrap(), &ExtraSchema::new()).unwrap();
    let packets = verdict.packets.iter().filter(|it| it.has_for_testing());
    let texts: Vec<&str> = packets.map(|packet| packet.for_testing().str()).collect();
    assert_eq!(texts.len(), 1002);
    assert_eq!((texts[0], texts[1]), ("before", &*"p".repeat(LONG_BYTES)));
    assert!(texts[2..].iter().all(|text| *text == "after"));
    drop(child_lives);
    leftover.delete().unwrap();
    fs::remove_dir_all(&directory).unwrap();
}
