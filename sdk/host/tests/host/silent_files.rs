//! Files whose file systems never answer. The daemon serves everybody else meanwhile.

use std::fs::File;
use std::os::fd::AsFd as _;

use tracezero_ipc::consumer_port::requests::CloneSource;
use tracezero_ipc::producer_port::SERVICE;
use tracezero_ipc::socket::CLOSING_FILES_MAX;

use crate::consumer::cloning;
use crate::daemon::TestDaemon;
use crate::descriptors::{bind, send_with};
use crate::files::into_file;
use crate::silent_file::{FLUSH, GETATTR, READ, SilentFile, WRITE};

/// Records a packet into the file, and waits until a request of kind `request` to its file system
/// is unanswered. Checks that the daemon still answers its consumers, and that the session can be
/// freed.
fn record_into(silent: SilentFile, request: u32) {
    let daemon = TestDaemon::start();
    // Drops the file before the daemon, also if the test fails: the daemon may wait for the file.
    let silent = silent;
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut stuck = daemon.consumer();
    let config = into_file("file_write_period_ms: 100");
    stuck.enable_with(&config, silent.file().try_clone().unwrap());
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    let mut cloner = daemon.consumer();
    if request == READ {
        let session = daemon.state().sessions[0].id;
        let clone = cloning(CloneSource::Id(session));
        cloner.ask_with(&clone, File::open("/dev/null").unwrap().into());
        producer.answer_flush();
    }
    support::wait_until(|| silent.unanswered(request) > 0);
    assert_eq!(daemon.state().sessions.len(), 1);

    drop((stuck, cloner));
    producer.expect_stop(&instance);
    daemon.wait_for_sessions(0);
    assert!(daemon.log_lines("its file has failed").is_empty());
    drop(silent);
    // If only a clone cannot be made, the file has not failed.
    if request != READ {
        daemon.wait_for_log("its file has failed");
    }
}

#[test]
fn a_file_that_never_answers_a_write_holds_up_nobody_else() {
    let mut options = File::options();
    if let Some(silent) = SilentFile::open(options.write(true), &[FLUSH]) {
        record_into(silent, WRITE);
    }
}

#[test]
fn a_file_that_never_tells_its_size_holds_up_nobody_else() {
    let mut options = File::options();
    if let Some(silent) = SilentFile::open(options.append(true), &[FLUSH]) {
        record_into(silent, GETATTR);
    }
}

#[test]
fn a_file_that_is_never_read_for_its_clone_holds_up_nobody_else() {
    let mut options = File::options();
    if let Some(silent) = SilentFile::open(options.read(true).write(true), &[FLUSH, WRITE]) {
        record_into(silent, READ);
    }
}

#[test]
fn files_that_cannot_be_closed_hold_up_their_sender_alone() {
    let daemon = TestDaemon::start();
    let Some(silent) = SilentFile::open(File::options().write(true), &[]) else {
        return;
    };
    let mut honest = daemon.producer("honest");
    let mut sender = daemon.producer_peer();
    send_with(&sender, &bind(SERVICE), &[silent.file().as_fd()]);
    // The daemon keeps only the last file. Closing the one before never ends.
    for closing in 1..=CLOSING_FILES_MAX {
        assert!(sender.next().is_some());
        send_with(&sender, &bind(SERVICE), &[silent.file().as_fd()]);
        support::wait_until(|| silent.unanswered(FLUSH) == closing);
    }
    // Both files arrive in one message.
    send_with(&sender, &bind(SERVICE), &[silent.file().as_fd(); 2]);
    sender.wait_for_end();
    daemon.wait_for_log("too many files that it has sent are still being closed");
    daemon.producer_peer().wait_for_end();
    daemon.wait_for_log("has sent 64 files that are still being closed");
    honest.sync();

    drop(silent);
    // Now the threads can close the files.
    support::wait_until(|| {
        let mut peer = daemon.producer_peer();
        send_with(&peer, &bind(SERVICE), &[]);
        peer.next().is_some()
    });
}
