//! Functions that each record one form of event of the macros.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use tracezero::{
    CounterTrack, DataSource, Flow, Setup, TraceFuture as _, Track, Unit, async_span, begin, clock,
    counter, dict, enabled, end, instant, span, trace,
};

use self::http::TrackEventExt as _;

mod http {
    protozero::include_protos!("http");
}

/// A function that records some events, given the number of the round.
type Record = fn(u32);

/// The forms that allocate nothing.
pub const FORMS: [(&str, Record); 15] = [
    ("spans", spans),
    ("begin and end", begin_and_end),
    ("instants", instants),
    ("counters", counters),
    ("numbers", numbers),
    ("texts", texts),
    ("arrays and dictionaries", structures),
    ("names that are no literals", dynamic_names),
    ("explicit times", explicit_times),
    ("tracks", tracks),
    ("flows", flows),
    ("fields", fields),
    ("functions", functions),
    ("polls of a future", polls),
    ("packets that build on states", packets_with_states),
];

/// The forms that create tracks or names at run time, with the number of allocations of each call.
pub const OF_TRACKS: [(&str, Record, u64); 7] = [
    ("unique track", on_unique_track, 1),
    ("async function", call_async, 1),
    // The arguments are stored until the first poll.
    (
        "async function with arguments",
        call_async_with_arguments,
        2,
    ),
    ("named track", on_named_track, 1),
    ("counter", on_new_counter, 1),
    // The track owns the name of the thread, too.
    ("thread", on_thread_track, 2),
    // The caller formats the name into a text.
    ("name", under_formatted_name, 1),
];

static TRACK: LazyLock<Track> = LazyLock::new(|| Track::new("parent").child("child"));
static COUNTER: LazyLock<CounterTrack> =
    LazyLock::new(|| CounterTrack::under(&TRACK, "bytes").unit(Unit::Bytes));
static BY_NAME: LazyLock<BTreeMap<&str, u32>> = LazyLock::new(|| [("one", 1), ("two", 2)].into());
static POINTS: LazyLock<HashMap<String, [f32; 2]>> =
    LazyLock::new(|| [("origin".to_owned(), [0.0, 0.0])].into());

/// Records all of [`FORMS`].
pub fn record_forms(round: u32) {
    for (_, record) in FORMS {
        record(round);
    }
}

fn spans(round: u32) {
    let _outer = span!("forms", "outer");
    let _inner = span!("forms, grouped,third", "inner");
    let with_result = span!("forms", "with a result");
    end!(with_result, round, text = "result");
}

fn begin_and_end(round: u32) {
    begin!("forms", "slice", round);
    end!("forms", round);
    begin!("forms", "slice");
    end!("forms");
}

fn instants(_: u32) {
    if enabled!("forms") {
        instant!("forms", "instant");
        instant!("forms, grouped,third", "instant");
    }
}

fn counters(round: u32) {
    counter!("forms", "literal", round);
    counter!("forms", "float", f64::from(round), at: clock::now_ns());
    counter!("forms", &COUNTER, round);
}

fn numbers(round: u32) {
    let (signed, large) = (-i64::from(round), u64::MAX - u64::from(round));
    instant!(
        "forms",
        "short",
        round,
        signed,
        yes = true,
        ratio = 0.5,
        character = 'ü'
    );
    instant!(
        "forms",
        "long",
        large,
        wide = u128::MAX,
        narrow = -1_i8,
        half = 0.5_f32
    );
    instant!(
        "forms",
        "other",
        some = Some(round),
        none = None::<u32>,
        at = &raw const round
    );
}

fn texts(round: u32) {
    let (text, path) = ("text", Path::new("/a/b"));
    instant!("forms", "short", text, path, %round, ?text, "with space" = text);
    instant!("forms", "long", text = LONG_TEXT, %LONG_TEXT, shown = %format_args!("{round} {text}"));
}

/// A text too long for the fast path, which puts arguments together in a register, and shorter than
/// a chunk.
const LONG_TEXT: &str = "a text that is longer than what is put together in a register";

fn structures(round: u32) {
    let (by_name, points) = (&*BY_NAME, &*POINTS);
    let nested = dict(|out| {
        out.add("round", &round)
            .add("inner", &dict(|inner| _ = inner.add("list", &["a", "b"])));
    });
    instant!(
        "forms",
        "structures",
        list = [round, 2, 3],
        by_name,
        points,
        nested
    );
}

fn dynamic_names(round: u32) {
    let name = if round.is_multiple_of(2) {
        "even"
    } else {
        "odd"
    };
    let _span = span!("forms", name, round);
    instant!("forms", name);
    begin!("forms", name);
    end!("forms");
}

fn explicit_times(round: u32) {
    let now_ns = clock::now_ns();
    instant!("forms", "earlier", at: now_ns - 1000);
    span!("forms", "measured", round, at: now_ns - 2000).end_at(now_ns);
}

fn tracks(round: u32) {
    let _span = span!("forms", "on a track", round, track: &TRACK);
    instant!("forms", "on a track", track: &TRACK);
    begin!("forms", "by hand", track: &TRACK, at: clock::now_ns());
    end!("forms", track: &TRACK);
}

fn flows(round: u32) {
    let flow = Flow::new();
    instant!("forms", "first", flow: &flow, flow: &Flow::for_process(u64::from(round)));
    instant!("forms", "last", last_flow: &flow);
}

fn fields(round: u32) {
    instant!("forms", "request", round, fields: |event| {
        event.http_request(|request| {
            request.set_method("GET").set_status(round);
            request.add_header_names("accept");
        });
    });
}

fn functions(round: u32) {
    traced();
    traced_with_arguments(round, "text");
    assert_eq!(traced_with_result(round), Ok(round));
}

#[trace]
fn traced() {}

#[trace("forms", name = "other", args(round, ?text, half = f64::from(round) / 2.0))]
fn traced_with_arguments(round: u32, text: &str) {
    _ = (round, text);
}

#[trace(result, ?error)]
fn traced_with_result(round: u32) -> Result<u32, &'static str> {
    Ok(round)
}

thread_local! {
    /// A future that never ends, inside of another one with a dynamic name.
    static FUTURE: RefCell<Pin<Box<dyn Future<Output = ()>>>> = RefCell::new(Box::pin(async {
        let pending = pending::<()>().traced(async_span!("forms", "pending", attempt = 1));
        pending.traced(async_span!("forms", format!("outer of {}", "pending"))).await;
    }));
}

fn polls(_: u32) {
    FUTURE.with_borrow_mut(|future| {
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    });
}

/// A data source that writes numbers as differences.
struct Numbers;

impl DataSource for Numbers {
    const NAME: &'static str = "com.example.numbers";
    /// The count of numbers.
    type ThreadState = u32;
    /// The last number.
    type IncrementalState = u32;
    tracezero::data_source_state!(Numbers);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self
    }
}

fn packets_with_states(round: u32) {
    Numbers::trace(|cx| {
        *cx.thread_state() += 1;
        let count = *cx.thread_state();
        cx.incremental_packet(|packet, last| {
            packet.for_testing(|event| {
                event
                    .set_seq_value(round.wrapping_sub(*last))
                    .set_counter(u64::from(count));
            });
            *last = round;
        });
    });
}

fn on_unique_track(_: u32) {
    let _span = span!("forms", "unique", track: &Track::unique("unique"));
}

fn call_async(_: u32) {
    #[trace]
    async fn ready() {}
    let polled = pin!(ready()).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(()));
}

fn call_async_with_arguments(round: u32) {
    #[trace(args(round, text), result)]
    async fn ready(round: u32, text: &str) -> u32 {
        _ = text;
        round
    }
    let polled = pin!(ready(round, "text")).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(round));
}

fn on_named_track(_: u32) {
    instant!("forms", "named", track: &Track::new("named"));
}

fn on_new_counter(round: u32) {
    counter!("forms", &CounterTrack::new("new"), round);
}

fn on_thread_track(_: u32) {
    instant!("forms", "thread", track: &Track::current_thread());
}

fn under_formatted_name(round: u32) {
    instant!("forms", format!("round {round}"));
}
