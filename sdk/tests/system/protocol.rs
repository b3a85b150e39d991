//! What goes over the socket.

use std::time::Duration;

use support::alone;
use tracezero::{activate_trigger, enabled, instant};
use tracezero_ipc::protos::{
    CommitDataRequestDecoder, InitializeConnectionRequestDecoder, RegisterDataSourceRequestDecoder,
    RegisterTraceWriterRequestDecoder,
};

use crate::daemon::{CONFIG, Daemon, PATIENCE, with_config};

#[test]
fn a_producer_introduces_itself() {
    let _alone = alone();
    let daemon = Daemon::listen();
    let system = daemon.system();
    let mut connection = daemon.accept();
    connection.bind();
    let call = connection.call().unwrap();
    assert_eq!(
        (call.method, call.drops_reply),
        ("InitializeConnection", false)
    );
    let introduction = InitializeConnectionRequestDecoder::new(&call.args);
    assert_eq!(introduction.producer_name(), Ok(Some("tested")));
    assert_eq!(
        introduction.shared_memory_size_hint_bytes(),
        Ok(Some(4 << 20))
    );
    assert_eq!(
        introduction.smb_scraping_mode().unwrap().map(|it| it.0),
        Some(1)
    );
    let commands = connection.call().unwrap();
    assert_eq!(
        (commands.method, commands.drops_reply),
        ("GetAsyncCommand", false)
    );
    assert!(!system.wait_connected(Duration::from_millis(20)));
    connection.reply(call.request_id, &[]);
    let registered = connection.call().unwrap();
    assert_eq!(
        (registered.method, registered.drops_reply),
        ("RegisterDataSource", true)
    );
    let request = RegisterDataSourceRequestDecoder::new(&registered.args);
    let descriptor = request.data_source_descriptor().unwrap().unwrap();
    assert_eq!(descriptor.name(), Ok(Some("track_event")));
    assert_eq!(descriptor.will_notify_on_stop(), Ok(Some(true)));
    assert!(system.wait_connected(PATIENCE));
    drop(system);
    connection.wait_for_end();
}

#[test]
fn commits_come_before_what_follows_them() {
    let _alone = alone();
    let daemon = Daemon::listen();
    let system = daemon.system();
    let mut connection = daemon.accept_producer();
    let _memory = connection.give_memory();
    connection.command(&with_config(6, 9, CONFIG));
    connection.command(&with_config(1, 9, CONFIG));
    let started = connection.next_call("NotifyDataSourceStarted");
    assert_eq!(started.args, [8, 9]);

    assert!(enabled!("test"));
    std::thread::spawn(|| {
        for number in 0..10_000_u64 {
            instant!("test", "event", number);
        }
    })
    .join()
    .unwrap();
    let writer = connection.next_call("RegisterTraceWriter");
    let writer = RegisterTraceWriterRequestDecoder::new(&writer.args);
    assert_eq!(writer.target_buffer(), Ok(Some(7)));
    // A flush of this instance, number 5.
    connection.command(&[0x2a, 6, 8, 9, 16, 5, 24, 0x22]);
    let (mut chunks, mut is_unregistered) = (0, false);
    loop {
        let call = connection.call().unwrap();
        match call.method {
            "UnregisterTraceWriter" => is_unregistered = true,
            "CommitData" => {
                assert!(call.drops_reply);
                let commit = CommitDataRequestDecoder::new(&call.args);
                if commit.flush_request_id() == Ok(Some(5)) {
                    break;
                }
                assert!(!is_unregistered, "the writer has ended before its commit");
                for chunk in commit.chunks_to_move().map(Result::unwrap) {
                    assert_eq!(chunk.target_buffer(), Ok(Some(7)));
                    chunks += 1;
                }
            }
            method => panic!("{method}"),
        }
    }
    assert!(is_unregistered && chunks > 20, "{chunks} chunks");

    activate_trigger("saved");
    let trigger = connection.next_call("ActivateTriggers");
    assert_eq!(trigger.args, b"\x0a\x05saved");
    // The daemon ends the session.
    connection.command(&[0x12, 2, 8, 9]);
    assert_eq!(connection.next_call("NotifyDataSourceStopped").args, [8, 9]);
    assert!(!enabled!("test"));
    drop(system);
}

#[test]
fn a_producer_records_nothing_after_the_end_of_its_connection() {
    let _alone = alone();
    let daemon = Daemon::listen();
    let system = daemon.system();
    for _ in 0..2 {
        let mut connection = daemon.accept_producer();
        let _memory = connection.give_memory();
        // Without a set-up, as old daemons do.
        connection.command(&with_config(1, 1, CONFIG));
        connection.next_call("NotifyDataSourceStarted");
        instant!("test", "event");
        assert!(enabled!("test"));
        drop(connection);
        let start = std::time::Instant::now();
        while enabled!("test") {
            assert!(start.elapsed() < PATIENCE);
        }
        instant!("test", "event");
    }
    drop(system);
}
