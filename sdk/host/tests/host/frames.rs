//! Frames of all sizes, cut anywhere, unknown and malformed.

use tracezero_ipc::consumer_port::Method as ConsumerMethod;
use tracezero_ipc::frame::FRAME_MAX_BYTES;
use tracezero_ipc::producer_port::{
    Introduction, Method, SERVICE, initialize_connection, register_trace_writer,
};
use tracezero_ipc::wire::{Body, Frame};

use crate::daemon::TestDaemon;
use crate::peer::{ArrivedBody, Peer, SERVICE_ID, invocation};

/// The number of frames that cannot be decoded after which a connection ends.
const MALFORMED_FRAMES_MAX: usize = 16;

/// The number of invalid entries of commits, and of other invalid requests, after which a producer
/// is disconnected.
const VIOLATIONS_MAX: usize = 64;

/// Frames that programs of Perfetto send, with their lengths.
const GOLDEN: [&str; 6] = [
    "12000000 1001 1A0E 0A0C 50726F6475636572506F7274",
    "12000000 1002 2A0E 0801 1001 1A06 1A027273 2001 2000",
    "10000000 1002 320C 0801 1000 1A06 0800 1001 1800",
    "0C000000 1003 2A08 0801 1005 1A00 2000",
    "0E000000 1003 320A 0801 1001 1A04 1A020804",
    "14000000 1009 2A10 0801 1004 1A08 0A06 0800 1000 1801 2001",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|it| *it != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Returns true if the daemon still serves the connection.
#[track_caller]
fn is_served(peer: &mut Peer) -> bool {
    let request_id = peer.send(Body::Bind { service: SERVICE });
    while let Some(arrived) = peer.next() {
        if arrived.request_id == request_id {
            return true;
        }
    }
    false
}

/// Returns a frame of this size, with its length. It calls a method that does not exist, and has a
/// field that the daemon does not know.
fn frame_of(size_bytes: usize) -> Vec<u8> {
    let empty = Frame {
        request_id: 1,
        body: invocation(99, &[]),
    };
    let mut stream = Vec::new();
    empty.append_to(&mut stream);
    let frame = &mut stream[4..].to_vec();
    // Field 2047 of a frame, which the daemon does not know.
    protozero::append_varint(2047 << 3 | 2, frame);
    let rest = size_bytes - frame.len();
    let length_bytes = 3;
    protozero::append_varint((rest - length_bytes) as u64, frame);
    frame.resize(size_bytes, 0);
    [&(size_bytes as u32).to_le_bytes()[..], frame].concat()
}

#[test]
fn frames_of_no_bytes_and_of_the_maximum_are_fine() {
    let daemon = TestDaemon::start();
    for mut peer in [daemon.producer_peer(), daemon.consumer_peer()] {
        peer.send_bytes(&[0; 4 * 100]);
        let sync = peer.next_request();
        peer.send_bytes(&frame_of(FRAME_MAX_BYTES));
        assert_eq!(peer.next_for(sync).body, failure());
        peer.send_bytes(&[0; 4]);
    }
    assert!(daemon.log_lines("ends").is_empty());
}

#[test]
fn frames_above_the_maximum_end_the_connection() {
    let daemon = TestDaemon::start();
    for size_bytes in [FRAME_MAX_BYTES as u32 + 1, 0xffff_fffd, u32::MAX] {
        for mut peer in [daemon.producer_peer(), daemon.consumer_peer()] {
            peer.send_bytes(&size_bytes.to_le_bytes());
            assert!(!is_served(&mut peer), "{size_bytes}");
        }
        let lines = daemon.log_lines(&format!("announced a frame of {size_bytes} bytes"));
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}

#[test]
fn golden_frames_cut_anywhere_leave_nothing_behind() {
    let daemon = TestDaemon::start();
    let mut is_there = daemon.producer_peer();
    for golden in GOLDEN.map(bytes) {
        for len in 0..golden.len() {
            let mut peer = daemon.producer_peer();
            peer.send_bytes(&golden[..len]);
            drop(peer);
        }
    }
    assert!(is_served(&mut is_there));
    assert!(daemon.log_lines("").is_empty());
    support::wait_until(|| daemon.state().producers.is_empty());
}

#[test]
fn golden_frames_in_two_pieces_are_frames() {
    let daemon = TestDaemon::start();
    let mut other = daemon.producer("other");
    for golden in GOLDEN.map(bytes) {
        for len in 1..golden.len() {
            let mut peer = daemon.producer_peer();
            peer.send_bytes(&golden[..len]);
            // The daemon answers each of these calls in another turn of its loop. It accepts the
            // connection of `peer` in the turn of the first call. It reads the first piece in the
            // turn of the second call, perhaps after it has answered. So it has read the piece
            // before the third answer.
            for _ in 0..3 {
                other.sync();
            }
            peer.send_bytes(&golden[len..]);
            assert!(is_served(&mut peer), "{len}");
        }
    }
    assert!(daemon.log_lines("").is_empty());
}

#[test]
fn golden_frames_that_are_short_of_bytes_are_malformed_or_others() {
    let daemon = TestDaemon::start();
    for golden in GOLDEN.map(bytes) {
        for len in 4..golden.len() {
            let mut peer = daemon.producer_peer();
            let frame = &golden[4..len];
            peer.send_bytes(&(frame.len() as u32).to_le_bytes());
            peer.send_bytes(frame);
            assert!(is_served(&mut peer), "{len}");
        }
    }
}

fn failure() -> ArrivedBody {
    ArrivedBody::Reply {
        reply: None,
        has_more: false,
    }
}

#[test]
fn unknown_services_methods_and_messages_are_answered() {
    let daemon = TestDaemon::start();
    for mut peer in [daemon.producer_peer(), daemon.consumer_peer()] {
        for (service_id, method_id) in [
            (0, 1),
            (2, 1),
            (u32::MAX, 1),
            (1, 0),
            (1, 16),
            (1, u32::MAX),
        ] {
            let request = peer.send(Body::Invoke {
                service_id,
                method_id,
                args: &[],
                drops_reply: false,
            });
            assert_eq!(
                peer.next_for(request).body,
                failure(),
                "{service_id} {method_id}"
            );
        }
        for body in [
            Body::Unknown,
            Body::Bound(None),
            Body::Reply {
                reply: Some(&[]),
                has_more: true,
            },
            Body::Error { text: "no" },
        ] {
            let request = peer.send(body.clone());
            let answer = peer.next_for(request).body;
            assert_eq!(
                answer,
                ArrivedBody::Error("unknown request".to_owned()),
                "{body:?}"
            );
        }
    }
}

#[test]
fn a_producer_introduces_itself_first_and_once() {
    let daemon = TestDaemon::start();
    let mut peer = daemon.producer_peer();
    for method in Method::ALL {
        if method != Method::InitializeConnection {
            assert_eq!(peer.call(method.id(), &[]), None, "{method:?}");
        }
    }
    let args = initialize_connection(&Introduction {
        producer_name: "p".to_owned(),
        ..Introduction::default()
    });
    let method = Method::InitializeConnection.id();
    // The reply says: the producer's own memory is not used, patches come before the commit, and no
    // memory is emulated.
    let expected = [8, 0, 16, 1, 24, 0].to_vec();
    assert_eq!(peer.call(method, &args), Some(expected));
    assert_eq!(peer.call(method, &args), None);
    assert_eq!(peer.call(Method::Sync.id(), &[]), Some(vec![]));
    assert_eq!(daemon.state().producers, ["p"]);
    // A producer may ask for commands only once, too.
    peer.invoke(Method::GetAsyncCommand.id(), &[]);
    assert_eq!(peer.call(Method::GetAsyncCommand.id(), &[]), None);
}

#[test]
fn calls_without_reply_are_carried_out() {
    let daemon = TestDaemon::start();
    let mut peer = daemon.producer_peer();
    let drop_reply = |method: Method, args| Body::Invoke {
        service_id: SERVICE_ID,
        method_id: method.id(),
        args,
        drops_reply: true,
    };
    let args = initialize_connection(&Introduction {
        producer_name: "p".to_owned(),
        ..Introduction::default()
    });
    let mut requests = Vec::new();
    // The second call fails.
    for (method, args) in [
        (Method::InitializeConnection, &args[..]),
        (Method::InitializeConnection, &args),
        (Method::Sync, &[]),
        (Method::RegisterDataSource, b"\x0a\x04\x0a\x02ds"),
        (Method::RegisterDataSource, b"\x0a\xff"),
    ] {
        requests.push(peer.send(drop_reply(method, args)));
    }
    requests.push(peer.send(Body::Invoke {
        service_id: 77,
        method_id: 1,
        args: &[],
        drops_reply: true,
    }));
    let sync = peer.invoke(Method::Sync.id(), &[]);
    let first = peer.next().unwrap();
    assert_eq!(first.request_id, sync, "{requests:?}");
    // Replies that the daemon would send in later turns are dropped, too.
    let mut consumer = daemon.consumer_peer();
    let query = ConsumerMethod::QueryServiceState.id();
    consumer.send(Body::Invoke {
        service_id: SERVICE_ID,
        method_id: query,
        args: &[],
        drops_reply: true,
    });
    let second = consumer.invoke(query, &[]);
    assert_eq!(consumer.next().unwrap().request_id, second);
    let state = daemon.state();
    assert_eq!(
        (state.producers, state.data_sources.len()),
        (vec!["p".to_owned()], 1)
    );
}

#[test]
fn malformed_frames_end_the_connection_at_the_limit() {
    let daemon = TestDaemon::start();
    for mut peer in [daemon.producer_peer(), daemon.consumer_peer()] {
        // A field whose length is longer than the frame; a wrong wire type; no text; an empty tag.
        let malformed: [&[u8]; 4] = [&[0x1a, 9, 0], &[0x1f], &[0x1a, 3, 0x0a, 1, 0xff], &[0x80]];
        for frame in malformed.iter().cycle().take(MALFORMED_FRAMES_MAX - 1) {
            peer.send_bytes(&(frame.len() as u32).to_le_bytes());
            peer.send_bytes(frame);
        }
        assert!(is_served(&mut peer));
        peer.send_bytes(&[1, 0, 0, 0, 0xff]);
        assert!(!is_served(&mut peer));
    }
    assert_eq!(daemon.log_lines("sends frames that are malformed").len(), 2);
}

#[test]
fn malformed_arguments_fail_and_leave_the_connection() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    // A length that is longer than the arguments.
    for method in [
        Method::RegisterDataSource,
        Method::UnregisterDataSource,
        Method::CommitData,
        Method::ActivateTriggers,
        Method::UpdateDataSource,
    ] {
        let reply = producer.peer.call(method.id(), &[0x0a, 9, 0]);
        assert_eq!(reply, None, "{method:?}");
    }
    for method in [
        Method::RegisterTraceWriter,
        Method::UnregisterTraceWriter,
        Method::NotifyDataSourceStarted,
        Method::NotifyDataSourceStopped,
    ] {
        // A varint without an end.
        let reply = producer.peer.call(method.id(), &[8, 0xff]);
        assert_eq!(reply, None, "{method:?}");
    }
    producer.sync();
    let mut consumer = daemon.consumer_peer();
    for method in ConsumerMethod::ALL {
        for args in [&[0x0a, 9, 0][..], &[0xff], &[8, 0xff]] {
            assert_eq!(
                consumer.call(method.id(), args),
                None,
                "{method:?} {args:?}"
            );
        }
    }
    assert!(daemon.log_lines("").is_empty());
    assert!(daemon.state().sessions.is_empty());
}

#[test]
fn numbers_that_nothing_has_end_the_connection_at_the_limit() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    let nobody = register_trace_writer(
        tracezero_core::ids::WriterId(0),
        tracezero_core::ids::BufferId(1),
    );
    // A data source without a descriptor, a commit of chunk 256, and a writer with the id 0.
    let calls: [(Method, &[u8]); 3] = [
        (Method::RegisterDataSource, &[]),
        (Method::CommitData, b"\x0a\x07\x08\x00\x10\x80\x02\x18\x01"),
        (Method::RegisterTraceWriter, &nobody),
    ];
    for (method, args) in calls.iter().cycle().take(VIOLATIONS_MAX - 1) {
        producer.call(*method, args);
    }
    producer.sync();
    producer.tell(Method::RegisterTraceWriter, &nobody);
    producer.peer.wait_for_end();
    daemon.wait_for_log("breaks the rules of the shared memory");
    assert!(daemon.state().producers.is_empty());
}
