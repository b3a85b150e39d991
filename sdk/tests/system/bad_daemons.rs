//! Daemons that do not follow the protocol: the connection ends with a reason, or what they say is
//! ignored. The process is unharmed.

use std::fs::File;
use std::os::fd::AsFd as _;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use support::alone;
use tracezero::{enabled, instant};

use crate::daemon::{CONFIG, Connection, Daemon, METHODS, PATIENCE, reason, with_config};

/// Accepts a producer, does what `act` does, and returns why the connection has ended.
#[track_caller]
fn reason_after(act: impl FnOnce(&mut Connection)) -> String {
    let daemon = Daemon::listen();
    let system = daemon.system();
    let mut connection = daemon.accept_producer();
    act(&mut connection);
    connection.wait_for_end();
    reason(&system)
}

const SET_UP_TRACING: [u8; 4] = [0x1a, 2, 8, 4];

fn memfd(size_bytes: u64) -> impl std::os::fd::AsFd {
    let fd = memfd_create("", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, size_bytes).unwrap();
    fd
}

#[test]
fn memory_that_cannot_be_used_ends_the_connection() {
    let _alone = alone();
    let none = reason_after(|connection| connection.command(&SET_UP_TRACING));
    assert_eq!(none, "the daemon has given no memory");
    for size_bytes in [0, 6000, 64 << 20] {
        let reason = reason_after(|connection| {
            let memory = memfd(size_bytes);
            connection
                .command_with(&SET_UP_TRACING, memory.as_fd())
                .unwrap();
        });
        assert!(
            reason.contains(&format!("the size of {size_bytes} bytes")),
            "{reason}"
        );
    }
    for page_kib in [0, 3, 127] {
        let reason = reason_after(|connection| {
            let memory = memfd(1 << 20);
            let command = [0x1a, 2, 8, page_kib];
            connection.command_with(&command, memory.as_fd()).unwrap();
        });
        assert!(reason.contains("the page size"), "{reason}");
    }
    let device = reason_after(|connection| {
        let device = File::open("/dev/zero").unwrap();
        connection
            .command_with(&SET_UP_TRACING, device.as_fd())
            .unwrap();
    });
    assert!(device.contains("not that of a file"), "{device}");
    let twice = reason_after(|connection| {
        let _memory = connection.give_memory();
        let _other = connection.give_memory();
    });
    assert_eq!(twice, "the daemon has given memory twice");
}

#[test]
fn frames_that_cannot_be_read_end_the_connection() {
    let _alone = alone();
    let garbage = reason_after(|connection| {
        for _ in 0..20 {
            connection.send_bytes(b"\xff\xff\xff");
        }
    });
    assert_eq!(garbage, "the daemon sends frames that are malformed");
    let too_long = reason_after(|connection| {
        let bytes = 200_000_u32.to_le_bytes();
        connection
            .socket
            .queue()
            .push(|out| out.extend_from_slice(&bytes));
        connection.socket.send().unwrap();
    });
    assert!(too_long.contains("200000 bytes"), "{too_long}");
    let no_more = reason_after(|connection| connection.reply(connection.commands_request, &[]));
    assert_eq!(no_more, "the daemon sends no more commands");
}

#[test]
fn a_daemon_that_refuses_is_named_with_its_reason() {
    let _alone = alone();
    let daemon = Daemon::listen();
    let system = daemon.system();
    let mut connection = daemon.accept();
    connection.bind_with(&METHODS[..3]);
    connection.wait_for_end();
    assert!(
        reason(&system).contains("no method CommitData"),
        "{system:?}"
    );
    drop(system);

    let system = daemon.system();
    let mut connection = daemon.accept();
    connection.bind();
    let call = connection.next_call("InitializeConnection");
    // This daemon cannot share memory, and wants pages of 3 KiB.
    connection.reply(call.request_id, &[24, 1]);
    connection.commands_request = connection.next_call("GetAsyncCommand").request_id;
    connection.command(&[0x1a, 2, 8, 3]);
    connection.wait_for_end();
    assert!(reason(&system).contains("3072"), "{system:?}");
    drop(system);
    drop(daemon);
    let gone = Daemon::listen();
    let system = gone.system();
    drop(gone.accept());
    assert_eq!(reason(&system), "the daemon has closed the connection");
}

#[test]
fn commands_that_make_no_sense_are_ignored() {
    let _alone = alone();
    let daemon = Daemon::listen();
    let system = daemon.system();
    let mut connection = daemon.accept_producer();
    // Before there is memory: the instance starts, and records nothing.
    connection.command(&with_config(6, 1, CONFIG));
    connection.command(&with_config(1, 1, CONFIG));
    connection.next_call("NotifyDataSourceStarted");
    instant!("test", "without memory");
    connection.command(&[0x12, 2, 8, 1]);
    connection.next_call("NotifyDataSourceStopped");
    let _memory = connection.give_memory();
    // Unknown and empty commands, unknown data sources, instances that do not exist.
    connection.command(&[0x7a, 1, 0]);
    connection.command(&[]);
    connection.command(&[0xff]);
    connection.command(&with_config(6, 2, b"\x0a\x01x"));
    connection.command(&with_config(1, 2, b"\x0a\x01x"));
    connection.command(&[0x12, 2, 8, 99]);
    connection.command(&[0x3a, 2, 8, 99]);
    // More sessions than there are slots.
    for instance in 10..60 {
        let config = [CONFIG, &[0x20, instance]].concat();
        connection.command(&with_config(6, instance, &config));
    }
    connection.command(&with_config(1, 10, CONFIG));
    // The instances of unknown data sources have started, too.
    while connection.next_call("NotifyDataSourceStarted").args != [8, 10] {}
    assert!(enabled!("test"));
    instant!("test", "event");
    // A flush without instances is acknowledged.
    connection.command(&[0x2a, 2, 16, 3]);
    loop {
        if connection.next_call("CommitData").args == [24, 3] {
            break;
        }
    }
    assert!(system.wait_connected(PATIENCE));
    drop(system);
    connection.wait_for_end();
}

#[test]
fn a_connection_that_is_cut_anywhere_is_made_again() {
    let _alone = alone();
    let daemon = Daemon::listen();
    // Each system waits a second before it connects again.
    let systems: Vec<_> = (0..6).map(|_| daemon.system()).collect();
    for cut_after in 0..6 {
        let mut connection = daemon.accept();
        if cut_after > 0 {
            connection.bind();
        }
        if cut_after > 1 {
            let call = connection.next_call("InitializeConnection");
            connection.commands_request = connection.next_call("GetAsyncCommand").request_id;
            if cut_after > 2 {
                connection.reply(call.request_id, &[]);
                connection.next_call("RegisterDataSource");
            }
        }
        if cut_after > 3 {
            let _memory = connection.give_memory();
            connection.command(&with_config(6, 1, CONFIG));
        }
        if cut_after > 4 {
            connection.command(&with_config(1, 1, CONFIG));
            connection.next_call("NotifyDataSourceStarted");
            instant!("test", "event");
        }
    }
    for _ in &systems {
        daemon.accept_producer();
    }
}
