//! Descriptors that come without need, and descriptors of things that are no trace files. The
//! daemon closes them all. Each test counts descriptors of a file that no other test uses.

use std::fs::{self, File};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tracezero_ipc::consumer_port::requests::{CloneSource, Request};
use tracezero_ipc::consumer_port::{self, SERVICE as CONSUMERS};
use tracezero_ipc::producer_port::{Method, SERVICE as PRODUCERS};
use tracezero_ipc::wire::{Body, Frame};

use crate::consumer::{cloning, recording};
use crate::daemon::TestDaemon;
use crate::files::into_file;
use crate::peer::Peer;

/// Returns how many descriptors this process has for a file, or for anything else that the links in
/// `/proc/self/fd` name.
pub fn open_descriptors(target: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    // Other tests may close their descriptors meanwhile.
    let targets = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    targets.filter(|it| it == target).count()
}

/// Returns how many descriptors this process has for the same thing as `fd`.
fn count(fd: &impl AsRawFd) -> usize {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    open_descriptors(&fs::read_link(link).unwrap())
}

/// Waits until only the descriptor of the test is left.
#[track_caller]
fn wait_until_closed(fd: &impl AsRawFd) {
    support::wait_until(|| count(fd) == 1);
}

/// Sends bytes with descriptors, in one message.
pub fn send_with(peer: &Peer, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    let sent = sendmsg(
        peer.fd(),
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    );
    assert_eq!(sent, Ok(bytes.len()));
}

pub fn bind(service: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    Frame {
        request_id: 1,
        body: Body::Bind { service },
    }
    .append_to(&mut frame);
    frame
}

#[test]
fn several_in_one_message_end_the_connection() {
    let daemon = TestDaemon::start();
    let file = File::open(daemon.folder.write("sent", "")).unwrap();
    for number in [5, 16, 253] {
        for (mut peer, service) in [
            (daemon.producer_peer(), PRODUCERS),
            (daemon.consumer_peer(), CONSUMERS),
        ] {
            send_with(&peer, &bind(service), &vec![file.as_fd(); number]);
            peer.wait_for_end();
            wait_until_closed(&file);
        }
    }
    let lines = daemon.log_lines("several descriptors at once");
    assert_eq!(lines.len(), 6, "{lines:?}");
}

#[test]
fn one_too_many_is_closed() {
    let daemon = TestDaemon::start();
    let file = File::open(daemon.folder.write("sent", "")).unwrap();
    let mut peer = daemon.producer_peer();
    // The daemon receives both descriptors: its space for one has room for more, because it is
    // aligned.
    send_with(&peer, &bind(PRODUCERS), &[file.as_fd(); 2]);
    assert!(peer.next().is_some());
    support::wait_until(|| count(&file) == 2);
    drop(peer);
    wait_until_closed(&file);
}

#[test]
fn one_that_nothing_wants_is_closed_with_the_connection() {
    let daemon = TestDaemon::start();
    let file = File::open(daemon.folder.write("sent", "")).unwrap();
    let sent = || file.as_fd().try_clone_to_owned().unwrap();
    for method in Method::ALL {
        let mut peer = daemon.producer_peer();
        let request = peer.invoke_with(method.id(), &[], sent());
        if method != Method::GetAsyncCommand && method != Method::CommitData {
            peer.next_for(request);
        }
        peer.invoke_with(99, &[], sent());
        drop(peer);
        wait_until_closed(&file);
    }
    for method in consumer_port::Method::ALL {
        let mut peer = daemon.consumer_peer();
        peer.invoke_with(method.id(), &[], sent());
        peer.invoke_with(99, &[], sent());
        drop(peer);
        wait_until_closed(&file);
    }
}

#[test]
fn the_daemon_keeps_one_at_most() {
    let daemon = TestDaemon::start();
    let file = File::open(daemon.folder.write("sent", "")).unwrap();
    let mut peer = daemon.producer_peer();
    for _ in 0..1000 {
        let sent = file.as_fd().try_clone_to_owned().unwrap();
        let request = peer.invoke_with(99, &[], sent);
        assert_eq!(peer.reply(request), None);
        support::wait_until(|| count(&file) <= 2);
    }
    drop(peer);
    wait_until_closed(&file);
    assert!(daemon.log_lines("").is_empty());
}

#[test]
fn a_session_that_needs_no_file_closes_it() {
    let daemon = TestDaemon::start();
    let file = File::create(daemon.folder.file("sent")).unwrap();
    let mut consumer = daemon.consumer();
    let sent = file.as_fd().try_clone_to_owned().unwrap();
    let enabled = consumer.enable_with(&recording("ds"), sent);
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    wait_until_closed(&file);
    // A clone of a session that writes no file needs no descriptor, either.
    let id = daemon.state().sessions[0].id;
    let mut cloner = daemon.consumer();
    let sent = file.as_fd().try_clone_to_owned().unwrap();
    let request = cloner.ask_with(&cloning(CloneSource::Id(id)), sent);
    assert!(!cloner.cloned(request).unwrap().was_written_into_file);
    wait_until_closed(&file);
    assert_eq!(daemon.folder.read("sent"), b"");
}

/// Things that are no trace files.
fn no_files(daemon: &TestDaemon) -> Vec<(&'static str, OwnedFd)> {
    let path_only = {
        let mut options = File::options();
        let options = options.read(true).custom_flags(OFlags::PATH.bits() as i32);
        options.open(daemon.folder.write("path-only", "")).unwrap()
    };
    let read_only = File::open(daemon.folder.write("read-only", "")).unwrap();
    let (socket, _) = UnixStream::pair().unwrap();
    vec![
        ("O_PATH", path_only.into()),
        (
            "a directory",
            File::open(daemon.folder.path()).unwrap().into(),
        ),
        ("a socket without a peer", socket.into()),
        ("a file that cannot be written", read_only.into()),
        (
            "/dev/full",
            File::options()
                .write(true)
                .open("/dev/full")
                .unwrap()
                .into(),
        ),
    ]
}

#[test]
fn unsuitable_file_ends_session_with_reason() {
    let daemon = TestDaemon::start();
    for (name, file) in no_files(&daemon) {
        let mut consumer = daemon.consumer();
        let config = into_file("");
        let sent = file.try_clone().unwrap();
        let enabled = consumer.enable_with(&config, sent);
        consumer.disable();
        let reason = consumer.ended(enabled);
        assert!(reason.is_some(), "{name}");
        wait_until_closed(&file);
        consumer.call(&Request::FreeBuffers);
        assert_eq!(daemon.state().num_sessions, 0, "{name}");
    }
}

#[test]
fn a_device_may_take_the_trace() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let zeros = |is_readable| {
        let mut options = File::options();
        options.read(is_readable).write(true);
        options.open("/dev/zero").unwrap()
    };
    for is_readable in [false, true] {
        let file = zeros(is_readable);
        let mut consumer = daemon.consumer();
        let config = into_file("");
        let enabled = consumer.enable_with(&config, file.try_clone().unwrap());
        let instance = producer.started();
        producer.write(&instance, 1);
        producer.sync();
        // A clone begins with the bytes that the session has written. The daemon reads them from
        // this device, which has no end.
        let id = daemon.state().sessions[0].id;
        let mut cloner = daemon.consumer();
        let request = cloner.ask_with(&cloning(CloneSource::Id(id)), zeros(true).into());
        producer.answer_flush();
        match cloner.cloned(request) {
            Ok(cloned) => assert!(is_readable && cloned.was_written_into_file),
            Err(reason) => assert!(!is_readable && reason.contains("os error 9"), "{reason}"),
        }
        drop(cloner);
        consumer.disable();
        assert_eq!(consumer.ended(enabled), None);
        producer.expect_stop(&instance);
        drop(consumer);
        wait_until_closed(&file);
    }
}

#[test]
fn a_file_is_not_taken_for_one_that_came_before() {
    let daemon = TestDaemon::start();
    let [first, second] =
        ["first", "second"].map(|name| File::create(daemon.folder.file(name)).unwrap());
    let mut consumer = daemon.consumer();
    // This request does not use the first file, so the second replaces it.
    let query = Request::QueryCapabilities;
    let request = consumer.ask_with(&query, first.try_clone().unwrap().into());
    assert!(consumer.peer.reply(request).is_some());
    let config = into_file("");
    let enabled = consumer.enable_with(&config, second.try_clone().unwrap());
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(daemon.folder.read("first"), b"");
    assert!(!daemon.folder.read("second").is_empty());
}
