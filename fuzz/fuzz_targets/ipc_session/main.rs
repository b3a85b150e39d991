//! Fuzzes a daemon: producers and consumers that connect, call methods with sound and with changed
//! arguments, send descriptors and any bytes, write chunks, read or do not read, and go.
//!
//! The daemon runs on the thread of the target, and gets its turns between the steps. A panic in it
//! counts, although the daemon catches it. The target checks
//! - that a new consumer is served at the end, and finds no producer, and no session but those that
//!   are detached,
//! - that the daemon ends in order,
//! - that no descriptor is left then.
//!
//! Timers run by the machine's clock, so sessions whose configuration has times may differ between two
//! runs of one input.
#![no_main]

mod peer; // a producer or consumer
mod calls; // the calls of peers, and the form in which they are sent
mod files; // the files and sockets whose descriptors are sent

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tracezero_host::{Daemon, DaemonOptions, Log};
use tracezero_ipc::consumer_port::requests::Request;
use tracezero_ipc::consumer_port::service_state::decode_service_state;
use tracezero_ipc::frame::{FRAME_MAX_BYTES, append_frame};
use tracezero_ipc::protos::TracingServiceStateDecoder;
use tracezero_ipc::wire::Body;

use calls::{Call, SentAs};
use files::{Files, descriptors};
use peer::{Peer, SERVICE_ID, address};

const STEPS_MAX: usize = 64;
const PEERS_MAX: usize = 6;

#[derive(Arbitrary, Debug)]
enum Step {
    Connect {
        is_consumer: bool,
    },
    Close(u8),
    Call {
        peer: u8,
        call: Call,
        sent_as: SentAs,
    },
    /// Any bytes, as one frame.
    Frame(u8, Vec<u8>),
    /// Any bytes of the stream.
    Bytes(u8, Vec<u8>),
    /// Takes what the daemon has sent.
    Read(u8),
    /// Writes a packet into a chunk, and commits it.
    Write {
        peer: u8,
        page: u8,
        target: u8,
        packet: Vec<u8>,
        commits: bool,
    },
    /// Lets the daemon handle what was sent.
    Settle,
}

fuzz_target!(|steps: Vec<Step>| {
    let files = Files::new();
    let descriptors_before = descriptors();
    let detached = Arc::<AtomicUsize>::default();
    let mut daemon = daemon(&detached);
    let mut peers: Vec<Peer> = Vec::new();
    for step in steps.into_iter().take(STEPS_MAX) {
        run(step, &mut daemon, &mut peers, &files);
    }
    daemon.settle().expect("it serves");
    drop(peers);
    daemon.settle().expect("it serves");
    check_state(&mut daemon, detached.load(Ordering::Relaxed));
    daemon.stopper().stop();
    daemon.run().expect("it ends");
    let has_closed = || descriptors() == descriptors_before;
    // A thread that wrote a file ends a little later.
    let mut looks = 0..1000;
    let closes = looks.any(|_| {
        has_closed() || {
            std::thread::sleep(std::time::Duration::from_millis(1));
            false
        }
    });
    assert!(closes, "descriptors are left");
});

fn daemon(detached: &Arc<AtomicUsize>) -> Daemon {
    let detached = Arc::clone(detached);
    let mut options = DaemonOptions::new(Log::new(move |line| {
        // Relaxed: it is a count.
        if line.ends_with("is detached") {
            detached.fetch_add(1, Ordering::Relaxed);
        }
    }));
    options.producer_addresses = vec![address(false)];
    options.consumer_addresses = vec![address(true)];
    options.buffers_max_bytes = 16 << 20;
    Daemon::bind(options).expect("nobody listens there")
}

fn run(step: Step, daemon: &mut Daemon, peers: &mut Vec<Peer>, files: &Files) {
    let count = peers.len();
    match step {
        Step::Connect { is_consumer } if count < PEERS_MAX => {
            peers.extend(Peer::connect(is_consumer));
        }
        Step::Connect { .. } => {}
        Step::Close(number) if count > 0 => {
            peers.swap_remove(usize::from(number) % count);
        }
        Step::Close(_) => {}
        Step::Call {
            peer: number,
            call,
            sent_as,
        } => {
            // Calls go to a peer that may make them, if there is one.
            let is_wanted = |peer: &Peer| match call {
                Call::Producer(_) => !peer.is_consumer,
                Call::Consumer(_) => peer.is_consumer,
                Call::Unknown { .. } => true,
            };
            let wanted = peers.iter_mut().filter(|peer| is_wanted(peer));
            if let Some(peer) = chosen(wanted, number) {
                peer.call(&call, &sent_as, files);
            }
        }
        Step::Frame(number, bytes) => {
            if let Some(peer) = chosen(peers.iter_mut(), number)
                && bytes.len() <= FRAME_MAX_BYTES
            {
                let mut frame = Vec::new();
                append_frame(&mut frame, &bytes);
                peer.send(&frame, None);
            }
        }
        Step::Bytes(number, bytes) => {
            if let Some(peer) = chosen(peers.iter_mut(), number) {
                peer.send(&bytes, None);
            }
        }
        Step::Read(number) => {
            if let Some(peer) = chosen(peers.iter_mut(), number) {
                peer.read(|_, _| ());
            }
        }
        Step::Write {
            peer: number,
            page,
            target,
            packet,
            commits,
        } => {
            if let Some(peer) = chosen(peers.iter_mut(), number) {
                peer.write(page, target, &packet, commits);
            }
        }
        Step::Settle => daemon.settle().expect("it serves"),
    }
}

/// Returns one of the peers, if there is any.
fn chosen<'a>(peers: impl Iterator<Item = &'a mut Peer>, number: u8) -> Option<&'a mut Peer> {
    let peers: Vec<_> = peers.collect();
    let count = peers.len().max(1);
    peers.into_iter().nth(usize::from(number) % count)
}

/// Checks what a new consumer finds when all others have gone.
fn check_state(daemon: &mut Daemon, detached_max: usize) {
    let mut consumer = Peer::connect(true).expect("it takes connections");
    let query = Request::QueryServiceState {
        sessions_only: false,
    };
    let body = Body::Invoke {
        service_id: SERVICE_ID,
        method_id: query.method().id(),
        args: &query.encode(),
        drops_reply: false,
    };
    consumer.request(body, None);
    daemon.settle().expect("it serves");
    let mut replies = 0;
    consumer.read(|reply, has_more| {
        let state = decode_service_state(reply.expect("a success")).expect("a sound reply");
        let state = TracingServiceStateDecoder::new(state);
        assert_eq!(state.producers().count(), 0);
        assert!(state.tracing_sessions().count() <= detached_max);
        assert!(!has_more);
        replies += 1;
    });
    assert_eq!(replies, 1);
}
