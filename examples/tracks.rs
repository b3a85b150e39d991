//! Events that do not belong to a thread: tracks with children in a chosen order, requests that
//! overlap and move between threads, counters with units, and arrows between events.
//!
//! `cargo run --example tracks` writes `tracks.pftrace`.

use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use tracezero::{
    ChildOrder, CounterTrack, Flow, Session, Track, TrackSpan, Unit, counter, instant, span,
};

static SENT: LazyLock<CounterTrack> =
    LazyLock::new(|| CounterTrack::new("sent").unit(Unit::Bytes).multiplier(1024));

/// A request that one thread receives and another one answers.
struct Request {
    number: u64,
    /// The slice of the request. It is on a track of its own, because other requests are open at
    /// the same time.
    span: TrackSpan,
    flow: Flow,
}

fn main() -> Result<(), tracezero::Error> {
    let session = Session::record_to_file("tracks.pftrace")?;
    queues();
    requests();
    println!("{}", session.finish()?);
    Ok(())
}

/// Records on child tracks of one track.
fn queues() {
    let gpu = Track::new("GPU").children(ChildOrder::Explicit);
    let draw = gpu.child("draw queue").rank(1);
    let copy = gpu.child("copy queue").rank(2);
    for number in 0..4 {
        let _frame = span!("gpu", "frame", number, track: &draw);
        let _upload = span!("gpu", "upload", track: &copy);
        thread::sleep(Duration::from_micros(300));
    }
    instant!("gpu", "device lost", track: &Track::process());
}

/// Records requests that overlap.
fn requests() {
    let (send, receive) = mpsc::channel::<Request>();
    let worker = thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || receive.into_iter().for_each(answer))
        .expect("a thread");
    for number in 1..=5 {
        let flow = Flow::new();
        let _taken = span!("server", "take", number, flow: &flow);
        let request = Request {
            number,
            span: span!("server", "request", number, track: &Track::unique("request")),
            flow,
        };
        send.send(request).expect("the worker waits");
    }
    drop(send);
    worker.join().expect("the worker does not panic");
}

fn answer(request: Request) {
    let _answer = span!("server", "answer", number = request.number, last_flow: &request.flow);
    thread::sleep(Duration::from_micros(500));
    counter!("server", &SENT, request.number * 16);
    drop(request.span); // it began on another thread
}
