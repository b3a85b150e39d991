//! The daemon: where it listens, who may connect, and how it ends.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;
use support::wait_until;

use crate::serving::{Place, Running, daemon, failure, without_variables};

/// Returns the group and the permission bits of a file.
fn group_and_mode(path: &Path) -> (u32, u32) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.gid(), metadata.permissions().mode() & 0o777)
}

#[test]
fn the_daemon_ends_well_at_both_signals_and_removes_its_sockets() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let command = place.daemon(&[]);
        // Whoever runs the tests may ignore SIGINT, as a shell does for what it starts in the
        // background. Then a program that the tests start would ignore it, too.
        let mut with_signals = Command::new("env");
        with_signals
            .arg("--default-signal=INT")
            .arg(command.get_program())
            .args(command.get_args());
        without_variables(&mut with_signals);
        let daemon = Running::start(&mut with_signals);
        place.expect_listening();
        daemon.end(signal);
        assert_eq!(place.folder.entries(), Vec::<String>::new());
    }
}

#[test]
fn addresses_come_from_environment_variables_several_for_producers() {
    let place = Place::new();
    let name = format!("tracezero-test-{}", std::process::id());
    let mut producers = OsString::from(&place.producers);
    producers.push(format!(",@{name}"));
    let mut command = daemon(&[]);
    command.env("PERFETTO_PRODUCER_SOCK_NAME", producers);
    command.env("PERFETTO_CONSUMER_SOCK_NAME", &place.consumers);
    let daemon = Running::start(&mut command);
    place.expect_listening();
    let other = SocketAddr::from_abstract_name(name).unwrap();
    UnixStream::connect_addr(&other).unwrap();
    daemon.end(Signal::TERM);
}

#[test]
fn options_come_before_environment_variables() {
    let place = Place::new();
    let other = place.folder.file("other");
    let mut command = place.daemon(&[]);
    command.arg("--producer-socket").arg(&other);
    command.env("PERFETTO_PRODUCER_SOCK_NAME", place.folder.file("unused"));
    command.env("PERFETTO_CONSUMER_SOCK_NAME", place.folder.file("unused"));
    let daemon = Running::start(&mut command);
    place.expect_listening();
    UnixStream::connect(&other).unwrap();
    assert_eq!(place.folder.entries(), ["c", "other", "p"]);
    daemon.end(Signal::TERM);
}

#[test]
fn a_wrong_address_in_the_environment_is_an_error() {
    let place = Place::new();
    let mut command = daemon(&[]);
    command.env("PERFETTO_PRODUCER_SOCK_NAME", "vsock://2:3");
    command.env("PERFETTO_CONSUMER_SOCK_NAME", &place.consumers);
    let message = failure(&mut command);
    assert!(
        message.contains("give the path of a Unix socket"),
        "{message}"
    );
}

#[test]
fn producers_are_all_users_and_consumers_the_own_one_by_default() {
    let place = Place::new();
    let daemon = Running::start(&mut place.daemon(&[]));
    assert_eq!(group_and_mode(&place.producers).1, 0o666);
    assert_eq!(group_and_mode(&place.consumers).1, 0o600);
    daemon.end(Signal::TERM);
}

#[test]
fn sockets_have_the_groups_and_permissions_that_are_given() {
    let own = rustix::process::getegid().as_raw();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let name = groups.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)? == &own.to_string()).then(|| fields[0].to_owned())
    });
    // The group may be without a name.
    for group in [Some(own.to_string()), name].into_iter().flatten() {
        let place = Place::new();
        let permissions = format!(":0622:{group}:660");
        let daemon = Running::start(&mut place.daemon(&["--set-socket-permissions", &permissions]));
        assert_eq!(group_and_mode(&place.producers).1, 0o622);
        assert_eq!(group_and_mode(&place.consumers), (own, 0o660));
        daemon.end(Signal::TERM);
    }
}

#[test]
fn wrong_permissions_say_what_to_give() {
    for (wrong, remedy) in [
        ("660", "give four parts"),
        (":666:0", "give four parts"),
        (":666:0:660:", "give four parts"),
        (
            ":rw:0:660",
            "\"rw\" are no permissions: give octal digits, such as 660",
        ),
        (
            ":666:0:1777",
            "\"1777\" are no permissions: give octal digits",
        ),
        (":666:0:", "\"\" are no permissions: give octal digits"),
        (
            ":666:no-such-group:660",
            "add it, or give the number of a group",
        ),
    ] {
        let place = Place::new();
        let message = failure(&mut place.daemon(&["--set-socket-permissions", wrong]));
        assert!(message.contains(remedy), "{wrong}: {message}");
        assert_eq!(place.folder.entries(), Vec::<String>::new());
    }
}

/// Only root may give files to groups of others. Root becomes nobody for this.
#[test]
fn a_group_of_others_is_an_error_and_leaves_no_socket_behind() {
    let place = Place::new();
    let mut wrong = place.daemon(&["--set-socket-permissions", ":666:0:660"]);
    let mut right = place.daemon(&[]);
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&place.folder, fs::Permissions::from_mode(0o777)).unwrap();
        let program = place.folder.file("tracezero");
        // By a program of its own: if this process wrote the file, one that another test starts at the
        // same time would have it open for writing until it runs, and the copy could not be run.
        let mut copying = Command::new("cp");
        copying.arg(env!("CARGO_BIN_EXE_tracezero")).arg(&program);
        assert!(copying.status().unwrap().success());
        for command in [&mut wrong, &mut right] {
            let args: Vec<OsString> = command.get_args().map(Into::into).collect();
            *command = Command::new(&program);
            command.args(args).uid(65_534).gid(65_534);
            without_variables(command);
        }
    }
    let message = failure(&mut wrong);
    assert!(message.contains("be a member of the group"), "{message}");
    assert!(!place.producers.exists() && !place.consumers.exists());
    Running::start(&mut right).end(Signal::TERM);
}

#[test]
fn a_second_daemon_says_that_another_one_listens() {
    let place = Place::new();
    let daemon = Running::start(&mut place.daemon(&[]));
    let message = failure(&mut place.daemon(&[]));
    let remedy = "another daemon listens there: end that one, or choose another address";
    assert!(message.contains(remedy), "{message}");
    place.expect_listening();
    daemon.end(Signal::TERM);
}

#[test]
fn a_daemon_that_cannot_have_one_socket_leaves_none() {
    let place = Place::new();
    let _other = UnixListener::bind(&place.consumers).unwrap();
    let message = failure(&mut place.daemon(&[]));
    assert!(
        message.contains("another daemon listens there"),
        "{message}"
    );
    assert_eq!(place.folder.entries(), ["c"]);
}

#[test]
fn a_socket_that_was_left_behind_is_replaced() {
    let place = Place::new();
    let killed = Running::start(&mut place.daemon(&[]));
    // Dropping kills it.
    drop(killed);
    assert_eq!(place.folder.entries(), ["c", "p"]);
    let daemon = Running::start(&mut place.daemon(&[]));
    place.expect_listening();
    daemon.end(Signal::TERM);
}

#[test]
fn a_file_that_is_no_socket_is_kept() {
    let place = Place::new();
    place.folder.write("c", "a file");
    let message = failure(&mut place.daemon(&[]));
    assert!(
        message.contains("a file that is no socket is there: remove it"),
        "{message}"
    );
    assert_eq!(place.folder.read("c"), b"a file");
}

#[test]
fn a_folder_that_does_not_exist_is_to_be_made() {
    let place = Place::new();
    let mut command = daemon(&["--consumer-socket"]);
    command.arg(place.folder.file("none/c"));
    command.arg("--producer-socket").arg(&place.producers);
    let message = failure(&mut command);
    assert!(
        message.contains("the folder does not exist: make it"),
        "{message}"
    );
    assert!(message.contains("none/c"), "{message}");
}

#[test]
fn a_link_named_traced_is_the_daemon() {
    let place = Place::new();
    let link = place.folder.file("traced");
    symlink(env!("CARGO_BIN_EXE_tracezero"), &link).unwrap();
    let traced = |args: &[&str]| {
        let mut command = Command::new(&link);
        command.args(args).stdin(Stdio::null());
        without_variables(&mut command);
        command
    };
    let text = |args: &[&str]| {
        let output = traced(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        text(&["--version"]),
        concat!("traced ", env!("CARGO_PKG_VERSION"), " (tracezero)\n")
    );
    let help = text(&["--help"]);
    assert!(help.contains("Usage: traced [OPTIONS]"), "{help}");
    assert!(help.contains("--set-socket-permissions"), "{help}");
    let message = failure(&mut traced(&["--background"]));
    let remedy = "end the command line with `&`, or let a service manager start it";
    assert!(message.contains(remedy), "{message}");

    let mut command = traced(&["--set-socket-permissions", ":666::600"]);
    command.env("PERFETTO_PRODUCER_SOCK_NAME", &place.producers);
    command.env("PERFETTO_CONSUMER_SOCK_NAME", &place.consumers);
    let daemon = Running::start(&mut command);
    place.expect_listening();
    daemon.end(Signal::TERM);
}

/// Plays a consumer, in Perfetto's protocol: a length, then the number of the request and a message.
#[test]
fn a_session_beyond_the_memory_limit_is_refused_with_the_reason() {
    let place = Place::new();
    let mut daemon = Running::start(&mut place.daemon(&["--memory-limit", "1"]));
    let mut consumer = UnixStream::connect(&place.consumers).unwrap();
    consumer
        .write_all(b"\x12\0\0\0\x10\x01\x1a\x0e\x0a\x0cConsumerPort")
        .unwrap();
    // `EnableTracing` with a buffer of 2048 KiB and the data source `x`.
    consumer
        .write_all(
            b"\x18\0\0\0\x10\x02\x2a\x14\x08\x01\x10\x01\x1a\x0e\
              \x0a\x0c\x0a\x03\x08\x80\x10\x12\x05\x0a\x03\x0a\x01x",
        )
        .unwrap();
    let line = daemon.line();
    let reason = "buffers of 2048 KiB are too large: all sessions may have 1024 KiB";
    assert!(line.contains(reason), "{line}");
    daemon.end(Signal::TERM);
}

/// Makes the daemon write to its log: it ends the connection that sends this.
fn provoke_line(place: &Place) {
    let mut consumer = UnixStream::connect(&place.consumers).unwrap();
    consumer.write_all(&[0xff; 4]).unwrap();
    let mut answer = Vec::new();
    // The daemon goes on: it ends the connection.
    consumer.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
}

#[test]
fn a_log_that_nobody_reads_does_not_hold_up_the_daemon() {
    let place = Place::new();
    let (_reader, mut writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    let daemon = Running::spawn(place.daemon(&[]).stderr(writer));
    wait_until(|| UnixStream::connect(&place.consumers).is_ok());
    provoke_line(&place);
    daemon.end(Signal::TERM);
}

#[test]
fn a_log_that_is_closed_does_not_end_the_daemon() {
    let place = Place::new();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let daemon = Running::spawn(place.daemon(&[]).stderr(writer));
    wait_until(|| UnixStream::connect(&place.consumers).is_ok());
    provoke_line(&place);
    provoke_line(&place);
    daemon.end(Signal::TERM);
}
