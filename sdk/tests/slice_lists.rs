//! The lists of open slices in rings: of futures and other tracks that all threads may write to.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::{HashMap, VecDeque};
use std::future::{self, Future};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::thread;

use support::alone;
use tracezero::reader::{EventKind, Record, TraceReader};
use tracezero::{
    BufferConfig, InMemorySession, TraceConfig, TraceFuture as _, Track, async_span, instant, span,
};
use tracezero_core::protos::TracePacketDecoder;
use tracezero_core::protos::sequences::{OpenSliceDecoder, TracePacketDecoderExt as _};
use tracing_subscriber::layer::SubscriberExt as _;

/// A list may have a slice for each 8 KiB of its ring.
const RING_KIB: u32 = 256;
const SLICES_MAX: usize = 32;

/// The list of a ring.
#[derive(Debug)]
struct List {
    time_ns: u64,
    /// The uuids of the tracks, and the names.
    slices: Vec<(u64, String)>,
    left_out: u64,
}

impl List {
    fn names(&self) -> Vec<&str> {
        self.slices.iter().map(|(_, name)| &**name).collect()
    }
}

/// What a ring has at the end.
#[derive(Debug)]
struct Ring {
    lists: Vec<List>,
    /// The times of the ends of slices, by the uuid of the track.
    ends_ns: HashMap<u64, u64>,
    /// The uuids of the tracks that are described.
    tracks: Vec<u64>,
}

fn record() -> InMemorySession {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(RING_KIB))
        .record_all()
        .record_in_memory()
        .unwrap()
}

/// Fills the ring this many times.
fn fill(session: &InMemorySession, laps: u64) {
    let overwritten = || session.control().stats().buffers[0].bytes_overwritten;
    let end = overwritten() + laps * u64::from(RING_KIB) * 1024;
    while overwritten() < end {
        for _ in 0..1000 {
            instant!("test", "filler");
        }
    }
}

fn read(session: InMemorySession) -> Ring {
    let (trace, _) = session.finish();
    let mut reader = TraceReader::new(&trace[..]);
    let mut ring = Ring {
        lists: Vec::new(),
        ends_ns: HashMap::new(),
        tracks: Vec::new(),
    };
    while let Some(record) = reader.next().unwrap() {
        match record {
            Record::Event(event) if event.head.kind == EventKind::SliceEnd => {
                let track = event.tracks().track(event.head.track).uuid;
                ring.ends_ns.insert(track, event.head.timestamp_ns);
            }
            Record::Packet(other) => {
                let packet = TracePacketDecoder::new(other.packet.bytes());
                let Some(list) = packet.open_slices().unwrap() else {
                    continue;
                };
                let Some(time_ns) = list.time_ns().unwrap() else {
                    continue;
                };
                let slice = |slice: Result<OpenSliceDecoder<'_>, _>| {
                    let slice = slice.unwrap();
                    let name = slice.name().unwrap().unwrap().to_owned();
                    (slice.track_uuid().unwrap().unwrap(), name)
                };
                ring.lists.push(List {
                    time_ns,
                    slices: list.slices().map(slice).collect(),
                    left_out: list.left_out().unwrap().unwrap_or_default(),
                });
            }
            Record::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    let tracks = reader.tracks().iter();
    ring.tracks = tracks.map(|(_, track)| track.uuid).collect();
    ring
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    future.as_mut().poll(&mut context).is_ready()
}

#[test]
fn a_ring_lists_waiting_futures_and_open_slices_of_tracks() {
    let _alone = alone();
    let session = record();
    let subscriber = tracing_subscriber::registry().with(tracezero::layer());
    let mut fetch = Box::pin(future::pending::<()>().traced(async_span!("test", "fetch")));
    let mut over = Box::pin(future::pending::<()>().traced(async_span!("test", "over")));
    assert!(!poll(&mut fetch) && !poll(&mut over));
    let imports = Track::new("imports");
    let _import = span!("test", String::from("import 7"), track: &imports);
    tracing::subscriber::with_default(subscriber, || {
        let request = tracing::info_span!("request");
        let closed = tracing::info_span!("closed");
        for _ in 0..2 {
            request.in_scope(|| ());
            closed.in_scope(|| ());
        }
        drop(closed);
        fill(&session, 2);
        drop(over);
        fill(&session, 2);
    });
    let ring = read(session);
    let list = ring.lists.last().unwrap();
    let mut names = list.names();
    names.sort_unstable();
    assert_eq!(names, ["fetch", "import 7", "request"]);
    assert_eq!(list.left_out, 0);
    for (track, name) in &list.slices {
        assert!(ring.tracks.contains(track), "{name}");
    }
}

#[test]
fn a_list_has_the_oldest_slices_and_counts_the_rest() {
    const FUTURES: usize = 100;
    let _alone = alone();
    let session = record();
    let mut futures: Vec<_> = (0..FUTURES)
        .map(|number| {
            let name = format!("future {number}");
            Box::pin(future::pending::<()>().traced(async_span!("test", name)))
        })
        .collect();
    assert!(!futures.iter_mut().any(poll));
    fill(&session, 2);
    let ring = read(session);
    let list = ring.lists.last().unwrap();
    let oldest: Vec<_> = (0..SLICES_MAX).map(|it| format!("future {it}")).collect();
    assert_eq!(list.names(), oldest);
    assert_eq!(list.left_out, (FUTURES - SLICES_MAX) as u64);
}

#[test]
fn each_session_lists_what_it_has_seen() {
    let _alone = alone();
    let session = record();
    let mut first = Box::pin(future::pending::<()>().traced(async_span!("test", "first")));
    assert!(!poll(&mut first));
    let other = record();
    let mut second = Box::pin(future::pending::<()>().traced(async_span!("test", "second")));
    assert!(!poll(&mut second));
    fill(&other, 2);
    let lists = read(other).lists;
    assert_eq!(lists.last().unwrap().names(), ["second"]);
    let lists = read(session).lists;
    assert_eq!(lists.last().unwrap().names(), ["first", "second"]);

    let third = record();
    fill(&third, 1);
    // The sessions that have seen the begins are over.
    assert!(!poll(&mut first));
    fill(&third, 2);
    let lists = read(third).lists;
    assert_eq!(lists.last().unwrap().names(), ["first"]);
}

#[test]
fn what_a_list_has_ends_after_its_time() {
    const FUTURES: usize = 20;
    let _alone = alone();
    let session = record();
    let work = || {
        let mut waiting = VecDeque::new();
        for number in 0..100_000 {
            let mut future = Box::pin(future::pending::<()>().traced(async_span!("test", "wait")));
            assert!(!poll(&mut future));
            waiting.push_back(future);
            if waiting.len() > FUTURES {
                // Some live long.
                let ended = if number % 100 == 0 { 0 } else { FUTURES };
                waiting.remove(ended);
            }
        }
    };
    let ring = thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        for thread in threads {
            thread.join().unwrap();
        }
        read(session)
    });
    let mut ended = 0;
    for list in &ring.lists {
        for (track, _) in &list.slices {
            if let Some(&end_ns) = ring.ends_ns.get(track) {
                assert!(end_ns >= list.time_ns);
                ended += 1;
            }
        }
    }
    assert!(ended > 0, "{ring:?}");
}
