//! Pages of programs with futures. The span of a future is on its own track, its polls are on
//! threads, and a flow leads from the begin of the span through the polls to the end of the span.

use protozero::HeapBuffered;
use serde_json::{Value, json};
use support::Folder;
use tracezero::protos::{
    Trace, TrackEvent, track_descriptor::ChildTracksOrdering, track_event::Type,
};

use crate::chromium::Chromium;
use crate::view;

const PROCESS: u64 = 1;
const MAIN: u64 = 2;
/// The tracks of workers 10, 2 and 1.
const WORKERS: [u64; 3] = [3, 4, 5];
const QUEUE: u64 = 6;
/// The tracks of requests, in the order in which they are described.
const LATE_REQUEST: u64 = 7;
const REQUEST: u64 = 8;
const UPLOAD: u64 = 9;
/// The flow of the request through threads.
const FLOW: u64 = 77;

/// An event: track, time in nanoseconds, type, name, and a function that sets further fields.
type Line = (u64, u64, Type, &'static str, fn(&mut TrackEvent<'_>));

/// Two requests and an upload, polled by three workers. The span of the first request begins and
/// ends in the same nanosecond as a poll.
const LINES: [Line; 16] = [
    (REQUEST, 0, Type::SLICE_BEGIN, "request", flow),
    (WORKERS[2], 0, Type::SLICE_BEGIN, "request", flow),
    (WORKERS[2], 2_000, Type::SLICE_END, "", nothing),
    (UPLOAD, 1_000, Type::SLICE_BEGIN, "upload", nothing),
    (WORKERS[0], 3_000, Type::SLICE_BEGIN, "request", flow),
    (WORKERS[0], 3_000, Type::INSTANT, "woken", nothing),
    (WORKERS[0], 4_000, Type::SLICE_END, "", nothing),
    (WORKERS[1], 6_000, Type::SLICE_BEGIN, "request", flow),
    (REQUEST, 7_000, Type::SLICE_END, "", flow_ends),
    (WORKERS[1], 7_000, Type::SLICE_END, "", nothing),
    (LATE_REQUEST, 5_000, Type::SLICE_BEGIN, "request", nothing),
    (LATE_REQUEST, 9_000, Type::SLICE_END, "", nothing),
    (QUEUE, 100, Type::COUNTER, "", value),
    (MAIN, 500, Type::SLICE_BEGIN, "serve", nothing),
    (MAIN, 600, Type::SLICE_BEGIN, "wait", nothing),
    (MAIN, 10_000, Type::INSTANT, "panic", nothing),
];

fn nothing(_: &mut TrackEvent<'_>) {}

fn flow(event: &mut TrackEvent<'_>) {
    event.add_flow_ids(FLOW);
}

fn flow_ends(event: &mut TrackEvent<'_>) {
    event.add_terminating_flow_ids(FLOW);
}

fn value(event: &mut TrackEvent<'_>) {
    event.set_counter_value(3);
}

fn trace() -> Vec<u8> {
    trace_in_order(ChildTracksOrdering::UNKNOWN)
}

/// Encodes the trace, with an order of child tracks in the process's descriptor.
fn trace_in_order(order: ChildTracksOrdering) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    let mut describe = |uuid: u64, name: &str, tid: Option<i32>| {
        trace.add_packet(|packet| {
            packet.track_descriptor(|track| {
                track.set_uuid(uuid);
                if uuid != PROCESS {
                    track.set_parent_uuid(PROCESS);
                }
                match tid {
                    Some(tid) => track.thread(|thread| {
                        thread.set_pid(10);
                        thread.set_tid(tid);
                        thread.set_thread_name(name);
                    }),
                    None if uuid == PROCESS => track.process(|process| {
                        process.set_pid(10);
                        process.set_process_name(name);
                    }),
                    None => {
                        track.set_name(name);
                    }
                }
                if uuid == PROCESS {
                    track.set_child_ordering(order);
                }
                if uuid == QUEUE {
                    track.counter(|_| {});
                    track.set_sibling_order_rank(-1);
                }
            });
            packet.set_trusted_packet_sequence_id(1);
            packet.set_sequence_flags(u32::from(uuid == PROCESS));
        });
    };
    describe(PROCESS, "server", None);
    describe(LATE_REQUEST, "request", None);
    describe(REQUEST, "request", None);
    describe(UPLOAD, "upload", None);
    describe(QUEUE, "queue", None);
    describe(WORKERS[0], "worker-10", Some(13));
    describe(WORKERS[1], "worker-2", Some(12));
    describe(WORKERS[2], "worker-1", Some(11));
    describe(MAIN, "server", Some(10));
    for (track, time_ns, kind, name, rest) in LINES {
        trace.add_packet(|packet| {
            packet.set_timestamp(1_000_000 + time_ns);
            packet.set_trusted_packet_sequence_id(1);
            packet.track_event(|event| {
                event.set_type(kind);
                event.set_track_uuid(track);
                if !name.is_empty() {
                    event.set_name(name);
                }
                rest(event);
            });
        });
    }
    drop(trace);
    buffer.to_vec()
}

/// Opens a trace in a browser.
fn open(trace: &[u8]) -> Chromium {
    let folder = Folder::empty();
    let file = folder.write("server.pftrace", trace);
    let page = folder.file("server.html");
    view(&file, &page, &[]);
    let mut chromium = Chromium::start();
    chromium.open(&page);
    chromium
}

/// Returns the lines of the table on a tab, each as the texts of its cells.
fn table(chromium: &mut Chromium, tab: &str) -> Value {
    chromium.evaluate(&format!("document.getElementById('tab-{tab}').click()"));
    chromium.evaluate(
        "[...document.querySelectorAll('#panel tbody tr')]
            .map((row) => [...row.cells].map((cell) => cell.innerText.trim()))",
    )
}

/// The span of the request that is polled, and its poll on worker 10.
const LIFE: &str = "view.find('request').find((event) => view.event(event).duration_ns === 7000)";
const POLL: &str = "view.find('request').find((event) => view.event(event).track === 'worker-10')";

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn flow_of_a_future_leads_through_its_polls() {
    let mut chromium = open(&trace());
    let steps = chromium.evaluate(&format!(
        "view.steps({POLL}).map(({{ from, to, leave_ns, arrive_ns }}) =>
            [view.event(from).track, view.event(to).track, leave_ns, arrive_ns])"
    ));
    let expected = json!([
        ["request", "worker-1", 0, 0],
        ["worker-1", "worker-10", 2000, 3000],
        ["worker-10", "worker-2", 4000, 6000],
        ["worker-2", "request", 7000, 7000],
    ]);
    assert_eq!(steps, expected);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn details_of_a_future_link_to_first_and_last_poll() {
    let mut chromium = open(&trace());
    let (x, y) = crate::point_of(&mut chromium, LIFE);
    chromium.click(x, y);
    chromium.settle();
    let details = "[...document.querySelectorAll('#panel section:last-child li')]
        .map((line) => line.innerText)";
    let expected = [
        "to request, 2.000 µs on worker-1",
        "at its end from request, 1.000 µs on worker-2",
    ];
    assert_eq!(chromium.evaluate(details), json!(expected));
    let title = "document.querySelector('#panel section:last-child h3').innerText.toLowerCase()";
    assert_eq!(chromium.evaluate(title), "flow, 1 and 5 of 5");
    chromium.screenshot("view-flow.png");
    chromium.evaluate("document.querySelectorAll('#panel section:last-child button')[1].click()");
    chromium.settle();
    let track = "view.event(view.selected()).track";
    assert_eq!(chromium.evaluate(track), "worker-2");
    let expected = [
        "from request, 1.000 µs on worker-10",
        "to the end of request, 7.000 µs on request",
    ];
    assert_eq!(chromium.evaluate(details), json!(expected));
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn threads_come_first_then_counters_then_groups_by_time() {
    let mut chromium = open(&trace());
    let expected = [
        "server",
        "server",
        "worker-1",
        "worker-2",
        "worker-10",
        "queue",
        "request",
        "request",
        "upload",
    ];
    assert_eq!(chromium.evaluate("view.tracks()"), json!(expected));
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn tracks_have_the_order_that_the_trace_asks_for() {
    let by_rank = [
        "queue",
        "server",
        "worker-1",
        "worker-2",
        "worker-10",
        "request",
        "request",
    ];
    let by_name = [
        "queue", "request", "request", "server", "upload", "worker-1", "worker-2",
    ];
    let by_time = [
        "worker-1",
        "request",
        "queue",
        "server",
        "upload",
        "worker-10",
        "request",
    ];
    for (order, names) in [
        (ChildTracksOrdering::EXPLICIT, by_rank),
        (ChildTracksOrdering::LEXICOGRAPHIC, by_name),
        (ChildTracksOrdering::CHRONOLOGICAL, by_time),
    ] {
        let mut chromium = open(&trace_in_order(order));
        let below_process = chromium.evaluate("view.tracks().slice(1, 8)");
        assert_eq!(below_process, json!(names), "{order:?}");
    }
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn tables_separate_futures_polls_open_spans_and_instants() {
    let mut chromium = open(&trace());
    let spans = json!([
        [
            "request",
            "",
            "track",
            "2",
            "11.00 µs",
            "11.00 µs",
            "5.500 µs",
            "7.000 µs"
        ],
        [
            "request",
            "",
            "thread",
            "3",
            "4.000 µs",
            "4.000 µs",
            "1.333 µs",
            "2.000 µs"
        ],
    ]);
    assert_eq!(table(&mut chromium, "spans"), spans);
    let open = json!([
        [
            "serve",
            "",
            "thread",
            "server, pid 10, tid 10",
            "500 ns",
            "9.500 µs"
        ],
        [
            "wait",
            "",
            "thread",
            "server, pid 10, tid 10",
            "600 ns",
            "9.400 µs"
        ],
        ["upload", "", "track", "upload", "1 µs", "9.000 µs"],
    ]);
    assert_eq!(table(&mut chromium, "open"), open);
    let instants = json!([["woken", "", "1"], ["panic", "", "1"]]);
    assert_eq!(table(&mut chromium, "instants"), instants);
    chromium.evaluate("document.querySelectorAll('#panel tbody tr')[1].click()");
    let selected = chromium.evaluate("view.event(view.selected()).name");
    assert_eq!(selected, "panic");
    let notice = chromium.evaluate("document.getElementById('notice').innerText");
    assert_eq!(notice, "");
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn page_of_a_damaged_file_says_so_at_the_top() {
    let mut trace = trace();
    trace.truncate(trace.len() - 3);
    let mut chromium = open(&trace);
    let notice = chromium.evaluate("document.getElementById('notice').innerText");
    let text = "The file is damaged: what could be read of it is shown (where).";
    assert_eq!(notice.as_str().unwrap().trim(), text);
    chromium.screenshot("view-damaged.png");
    chromium.evaluate("document.getElementById('where-damaged').click()");
    let damage = chromium.evaluate("document.getElementById('panel').innerText");
    assert!(
        damage.as_str().unwrap().contains("3 bytes are missing"),
        "{damage}"
    );
}
