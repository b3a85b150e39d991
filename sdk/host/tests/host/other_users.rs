//! Tests users who have fewer rights than the user of the daemon. The tests need the rights of
//! root, so that a thread can become another user for a moment.

use std::io;
use std::thread;

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_uid;
use support::not_run;
use tracezero_ipc::address::Address;
use tracezero_ipc::consumer_port::requests::{CloneSource, Request};
use tracezero_ipc::socket::Socket;

use crate::consumer::{Consumer, recording};
use crate::daemon::TestDaemon;
use crate::peer::Peer;
use crate::producer::Producer;

/// A user without rights.
const NOBODY: u32 = 65_534;

/// Does `work` as another user, on a new thread. Returns `None` if this process may not change its
/// user.
fn as_nobody<R: Send>(work: impl FnOnce() -> R + Send) -> Option<R> {
    if !geteuid().is_root() {
        not_run("root, to become another user");
        return None;
    }
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Changes the user of this thread only.
            set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
            work()
        });
        Some(thread.join().unwrap())
    })
}

#[test]
fn others_may_produce_and_not_consume() {
    let daemon = TestDaemon::start();
    daemon.open_folder();
    let connect = |path| Socket::connect(&Address::Path(path)).map(drop);
    let (producers, consumers) = (daemon.producers(), daemon.consumers());
    let Some((producing, consuming)) = as_nobody(move || (connect(producers), connect(consumers)))
    else {
        return;
    };
    assert!(producing.is_ok(), "{producing:?}");
    let error = consuming.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn sessions_of_others_cannot_be_attached_cloned_or_seen() {
    let daemon = TestDaemon::open_to_all();
    let mut owner = daemon.consumer();
    let named = format!("unique_session_name: 'secret' {}", recording("ds"));
    owner.enable(&named);
    let id = owner.state().sessions[0].id;
    let mut detaching = daemon.consumer();
    detaching.enable(&recording("ds"));
    let key = "key";
    assert_eq!(detaching.call(&Request::Detach { key }), Some(vec![]));
    let Some(mut stranger) = as_nobody(|| Peer::connect(&daemon.consumers())).map(Consumer::new)
    else {
        return;
    };
    assert_eq!(stranger.call(&Request::Attach { key }), None);
    for source in [CloneSource::Id(id), CloneSource::Name("secret")] {
        let refused = stranger.clone_session(source).unwrap_err();
        assert!(refused.contains("belongs to another user"), "{refused}");
    }
    let seen = stranger.state();
    assert!(
        seen.sessions.is_empty() && seen.num_sessions == 2,
        "{seen:?}"
    );
    // A consumer of the owner's user can attach the session.
    let mut owner = daemon.consumer();
    assert!(owner.call(&Request::Attach { key }).is_some());
}

#[test]
fn others_create_no_files_with_the_daemons_rights() {
    let daemon = TestDaemon::open_to_all();
    let Some(mut stranger) = as_nobody(|| Peer::connect(&daemon.consumers())).map(Consumer::new)
    else {
        return;
    };
    let path = daemon.folder.file("trace");
    let output = format!(
        "write_into_file: true output_path: '{}' {}",
        path.display(),
        recording("ds")
    );
    let reason = stranger.refused(&output);
    assert!(
        reason.contains("needs the user that the daemon runs as"),
        "{reason}"
    );
    assert!(!path.exists());
    // The daemon's own user may create the file.
    let mut consumer = daemon.consumer();
    let ended = consumer.enable(&output);
    consumer.disable();
    assert_eq!(consumer.ended(ended), None);
    assert!(path.exists());
}

#[test]
fn lockdown_keeps_other_users_out_and_is_not_theirs_to_set() {
    let daemon = TestDaemon::open_to_all();
    let lockdown = format!("lockdown_mode: LOCKDOWN_SET {}", recording("ds"));
    let connect = |path: &std::path::Path| as_nobody(|| Peer::connect(path));
    let Some(mut stranger) = connect(&daemon.consumers()).map(Consumer::new) else {
        return;
    };
    stranger.enable(&lockdown);
    daemon.wait_for_log("fields that are ignored: lockdown_mode");
    stranger.state();
    // The lockdown was ignored, because the stranger is not the daemon's user. So other users can
    // still connect.
    let _own = daemon.producer("own");
    let mut admitted = Producer::new(connect(&daemon.producers()).unwrap(), "admitted");
    admitted.sync();

    let mut consumer = daemon.consumer();
    consumer.enable(&lockdown);
    consumer.state();
    let mut refused = connect(&daemon.producers()).unwrap();
    assert_eq!(refused.call(1, &[]), None);
    let _other = daemon.producer("other");
    assert_eq!(daemon.state().producers, ["own", "admitted", "other"]);
}
