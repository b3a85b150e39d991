//! The daemon tells whoever has started it that it listens.

use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use support::wait_until;

use crate::serving::{Manager, Place, Running, failure, without_variables};

/// Plays the service manager, which names its socket by a path or by a name in no folder.
#[test]
fn a_service_manager_is_told_once_both_sockets_accept_connections() {
    let place = Place::new();
    let path = place.folder.file("notify");
    let name = format!("tracezero-notify-{}", std::process::id());
    let by_path = UnixDatagram::bind(&path).unwrap();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let by_name = UnixDatagram::bind_addr(&address).unwrap();
    for (manager, address) in [
        (by_path, path.into_os_string()),
        (by_name, format!("@{name}").into()),
    ] {
        let manager = Manager::new(manager);
        // A daemon without a socket for consumers is not ready.
        let other = UnixListener::bind(&place.consumers).unwrap();
        failure(place.daemon(&[]).env("NOTIFY_SOCKET", &address));
        manager.expect_nothing();
        drop(other);
        // A program that another test starts has the listener until it runs.
        wait_until(|| UnixStream::connect(&place.consumers).is_err());

        let mut command = place.daemon(&[]);
        let command = command.env("NOTIFY_SOCKET", &address).stderr(Stdio::null());
        let daemon = Running::spawn(command);
        manager.expect_ready();
        place.expect_listening();
        daemon.end(Signal::TERM);
    }
}

#[test]
fn a_service_manager_that_has_gone_is_no_reason_to_end() {
    let place = Place::new();
    let gone = place.folder.file("gone");
    let mut daemon = Running::start(place.daemon(&[]).env("NOTIFY_SOCKET", gone));
    assert!(daemon.line().contains("NOTIFY_SOCKET"));
    place.expect_listening();
    daemon.end(Signal::TERM);
}

/// The shell gives the daemon a descriptor, as Perfetto's `tracebox` does.
#[test]
fn an_inherited_descriptor_gets_one_byte_and_is_closed() {
    let place = Place::new();
    let daemon = place.daemon(&[]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec \"$@\" 7>&1 >/dev/null 2>&1", "sh"])
        .arg(daemon.get_program())
        .args(daemon.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    without_variables(&mut shell);
    let mut daemon = Running::spawn(shell.env("TRACED_NOTIFY_FD", "7"));
    let mut told = String::new();
    // Ends while the daemon goes on, since it has closed its descriptor.
    daemon.stdout().read_to_string(&mut told).unwrap();
    assert_eq!(told, "1");
    place.expect_listening();
    daemon.end(Signal::TERM);
}

#[test]
fn a_descriptor_that_was_not_inherited_is_no_reason_to_end() {
    for wrong in ["seven", "-1", "2", "1000"] {
        let place = Place::new();
        let mut daemon = Running::start(place.daemon(&[]).env("TRACED_NOTIFY_FD", wrong));
        assert!(daemon.line().contains("TRACED_NOTIFY_FD"), "{wrong}");
        place.expect_listening();
        daemon.end(Signal::TERM);
    }
}
