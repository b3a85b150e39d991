//! Tests the page of `tracezero view` in a browser, with real keys, clicks and turns of the wheel.
//!
//! These tests need Chromium: `ci/view.sh` runs them.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod chromium;
mod futures;
mod kernel;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use protozero::HeapBuffered;
use serde_json::Value;
use support::Folder;
use tracezero::protos::{Trace, TrackEvent, track_event};
use tracezero::{Flow, InMemorySession, counter, instant, span};

use crate::chromium::Chromium;

const NEEDLES: u64 = 7;
/// A name that would end the script and begin another if it were treated as markup.
const HOSTILE: &str =
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>";

/// A page that the tests share, because sessions of one process would record each other's events.
static PAGE: LazyLock<(Folder, PathBuf)> = LazyLock::new(|| {
    let folder = Folder::empty();
    let name = "</title><script>window.hacked = 3.pftrace".replace('/', "∕");
    let trace = folder.write(name, record());
    let page = folder.file("trace.html");
    view(&trace, &page, &[]);
    (folder, page)
});

fn record() -> Vec<u8> {
    let session = InMemorySession::start().unwrap();
    let flow = Flow::new();
    for number in 0..60_u64 {
        let _request = span!("http", "request", number, path = "/api/items", flow: &flow);
        std::thread::sleep(std::time::Duration::from_micros(100));
        if number % 9 == 0 {
            let _needle = span!("search", "needle", depth = number);
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        let _parse = span!("http", "parse");
        counter!("http", "open requests", number % 7);
        if number == 30 {
            instant!("http", "half way", secret = "xyzzy");
            drop(span!("evil", HOSTILE, HOSTILE = HOSTILE));
        }
    }
    session.finish().0
}

/// Runs the command.
fn view(trace: &Path, page: &Path, options: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tracezero"))
        .arg("view")
        .arg(trace)
        .arg("-o")
        .arg(page)
        .args(options)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // The status is 1 for a page of a damaged trace.
    assert!(output.status.code() < Some(2), "{said}");
    said
}

fn open() -> Chromium {
    let mut chromium = Chromium::start();
    chromium.open(&PAGE.1);
    chromium
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the begin and end of the visible range, in nanoseconds.
fn visible(chromium: &mut Chromium) -> (f64, f64) {
    let range = chromium.evaluate("view.visible()");
    (number(&range["start_ns"]), number(&range["end_ns"]))
}

/// Scrolls to an event and returns a point in the window that is on it.
fn point_of(chromium: &mut Chromium, event: &str) -> (f64, f64) {
    chromium.evaluate(&format!(
        "(() => {{ const e = view.event({event}); const d = Math.max(e.duration_ns, 1000);
           view.show(e.start_ns - d, e.start_ns + 2 * d); }})()"
    ));
    chromium.settle();
    let point = chromium.evaluate(&format!("view.pointOf({event})"));
    (number(&point["x"]), number(&point["y"]))
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn page_shows_its_trace_without_errors_and_requests() {
    let mut chromium = open();
    let events = number(&chromium.evaluate("view.eventCount"));
    assert_eq!(events, 60.0 + 60.0 + NEEDLES as f64 + 2.0);
    let facts = chromium.evaluate("document.getElementById('facts').textContent");
    assert!(facts.as_str().unwrap().contains("129 events"), "{facts}");
    chromium.screenshot("view-light.png");
    chromium.set_color_scheme("dark");
    chromium.screenshot("view-dark.png");
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn content_security_policy_stops_requests_and_markup() {
    let mut chromium = open();
    let fetched = "fetch('https://example.invalid/').then(() => 'fetched', () => 'stopped')";
    assert_eq!(chromium.complaints(), [""; 0]);
    assert_eq!(chromium.evaluate(fetched), "stopped");
    assert!(
        !chromium.complaints().is_empty(),
        "what other tests look for is seen"
    );
    let markup = "(() => { try { document.body.innerHTML = 'x'; return 'made'; }
                  catch { return 'stopped'; } })()";
    assert_eq!(chromium.evaluate(markup), "stopped");
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn a_search_finds_names_categories_and_arguments() {
    let mut chromium = open();
    for (text, hits) in [
        ("needle", NEEDLES),
        ("SEARCH", NEEDLES),
        ("xyzzy", 1),
        ("items", 60),
    ] {
        chromium.key("/", false);
        chromium.type_text(text);
        chromium.settle();
        let found = chromium.evaluate("view.hits()");
        assert_eq!(found["count"], hits, "{text}");
        chromium.key("Escape", false);
    }
    assert_eq!(chromium.evaluate("view.hits().count"), 0);
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn enter_goes_from_hit_to_hit_in_time_and_around() {
    let mut chromium = open();
    chromium.key("/", false);
    chromium.type_text("needle");
    let mut last_ns = -1.0;
    for position in 1..=NEEDLES {
        chromium.key("Enter", false);
        chromium.settle();
        let hits = chromium.evaluate("view.hits()");
        assert_eq!(hits["position"], position);
        let event = chromium.evaluate("view.event(view.hits().current)");
        assert_eq!(event["name"], "needle");
        let start_ns = number(&event["start_ns"]);
        assert!(start_ns > last_ns);
        last_ns = start_ns;
        let (from_ns, to_ns) = visible(&mut chromium);
        assert!((from_ns..to_ns).contains(&start_ns), "the hit is in view");
        assert_eq!(
            chromium.evaluate("view.selected() === view.hits().current"),
            true
        );
    }
    chromium.key("Enter", false);
    assert_eq!(chromium.evaluate("view.hits().position"), 1);
    chromium.key("Enter", true);
    assert_eq!(chromium.evaluate("view.hits().position"), NEEDLES);
    chromium.settle();
    chromium.screenshot("view-search.png");
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn the_wheel_zooms_around_the_pointer() {
    let mut chromium = open();
    let (x, y) = (900.0, 300.0);
    let pointed_ns = number(&chromium.evaluate(&format!("view.timeAt({x})")));
    let (start_ns, end_ns) = visible(&mut chromium);
    for _ in 0..5 {
        chromium.wheel(x, y, -120.0);
    }
    chromium.settle();
    let (start_after_ns, end_after_ns) = visible(&mut chromium);
    assert!(end_after_ns - start_after_ns < (end_ns - start_ns) / 3.0);
    let after_ns = number(&chromium.evaluate(&format!("view.timeAt({x})")));
    let pixel_ns = (end_after_ns - start_after_ns) / 1000.0;
    assert!(
        (after_ns - pointed_ns).abs() < pixel_ns,
        "{after_ns} was {pointed_ns}"
    );
    chromium.key("0", false);
    chromium.settle();
    let (start_whole_ns, end_whole_ns) = visible(&mut chromium);
    assert!((start_whole_ns - start_ns).abs() < 1.0 && (end_whole_ns - end_ns).abs() < 1.0);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn click_shows_details_of_a_slice() {
    let mut chromium = open();
    let (x, y) = point_of(&mut chromium, "view.find('needle')[2]");
    chromium.click(x, y);
    chromium.settle();
    assert_eq!(
        chromium.evaluate("view.selected() === view.find('needle')[2]"),
        true
    );
    let details = chromium.evaluate("document.getElementById('panel').innerText");
    let details = details.as_str().unwrap();
    for part in [
        "needle",
        "search",
        "Duration",
        "Self",
        "depth",
        "18",
        "Inside of",
        "request,",
    ] {
        assert!(details.contains(part), "{part} is not in:\n{details}");
    }
    chromium.key("u", false);
    chromium.settle();
    let request = chromium.evaluate("view.event(view.selected())");
    assert_eq!(request["name"], "request");
    let details = chromium.evaluate("document.getElementById('panel').innerText");
    let details = details.as_str().unwrap();
    for part in ["path", "/api/items", "Flow, 19 of 60"] {
        assert!(details.contains(part), "{part} is not in:\n{details}");
    }
    chromium.screenshot("view-details.png");
    chromium.key("Escape", false);
    assert_eq!(chromium.evaluate("view.selected()"), -1);
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn names_that_look_like_markup_are_text() {
    let mut chromium = open();
    let hostile = serde_json::to_string(HOSTILE).unwrap();
    let (x, y) = point_of(&mut chromium, &format!("view.find({hostile})[0]"));
    chromium.click(x, y);
    chromium.settle();
    let title = chromium.evaluate("document.querySelector('#panel h2').textContent");
    assert_eq!(title, HOSTILE);
    chromium.evaluate("document.getElementById('tab-spans').click()");
    let table = chromium.evaluate("document.getElementById('panel').textContent");
    assert!(table.as_str().unwrap().contains(HOSTILE));
    assert_eq!(chromium.evaluate("window.hacked === undefined"), true);
    assert_eq!(chromium.evaluate("document.images.length"), 0);
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn a_marked_range_limits_the_tables() {
    let mut chromium = open();
    let count = "[...document.querySelectorAll('#panel tbody tr')]
        .find((row) => row.cells[0].textContent === 'request').cells[3].textContent";
    chromium.evaluate("document.getElementById('tab-spans').click()");
    assert_eq!(chromium.evaluate(count), "60");
    let shift = 8;
    chromium.drag((500.0, 300.0), (700.0, 300.0), shift);
    chromium.settle();
    let inside = chromium.evaluate(
        "view.find('request').map(view.event).filter((request) =>
            request.start_ns < view.timeAt(700)
            && request.start_ns + request.duration_ns > view.timeAt(500)).length",
    );
    assert!((1.0..60.0).contains(&number(&inside)), "{inside}");
    assert_eq!(chromium.evaluate(count), inside.to_string());
    chromium.screenshot("view-mark.png");
    chromium.key("Escape", false);
    assert_eq!(chromium.evaluate(count), "60");
}

/// Encodes an event with more arguments, and more events with different names, than a call of a
/// JavaScript function can take arguments.
fn crowd() -> Vec<u8> {
    const MANY: u64 = 130_000;
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    let mut instant = |time_ns, write: &dyn Fn(&mut TrackEvent<'_>)| {
        trace.add_packet(|packet| {
            packet.set_timestamp(time_ns);
            packet.set_trusted_packet_sequence_id(2);
            packet.track_event(|event| {
                event.set_type(track_event::Type::INSTANT);
                write(event);
            });
        });
    };
    for number in 1..=MANY {
        instant(number * 1000, &|event| {
            event.set_name(&format!("name {}", number + 1_000_000));
        });
    }
    instant((MANY + 100) * 1000, &|event| {
        event.set_name("crowded");
        for number in 0..MANY {
            event.add_debug_annotations(|arg| {
                arg.set_name("number").set_uint_value(number);
            });
        }
    });
    drop(trace);
    buffer.to_vec()
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn tables_and_details_show_very_many_entries() {
    let folder = Folder::empty();
    let trace = folder.write("crowd.pftrace", crowd());
    let page = folder.file("crowd.html");
    view(&trace, &page, &[]);
    let mut chromium = Chromium::start();
    chromium.open(&page);
    chromium.evaluate("document.getElementById('tab-instants').click()");
    let lines = "document.querySelectorAll('#panel tbody tr').length";
    assert_eq!(chromium.evaluate(lines), 200);
    chromium.evaluate("document.querySelector('#panel .more').click()");
    assert_eq!(chromium.evaluate(lines), 5200);
    let (x, y) = point_of(&mut chromium, "view.find('crowded')[0]");
    chromium.click(x, y);
    chromium.settle();
    let args = chromium.evaluate("document.querySelectorAll('#panel dd').length");
    assert!(number(&args) > 130_000.0, "{args}");
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn page_says_what_the_limit_left_out() {
    let (folder, _) = &*PAGE;
    let names = folder.entries();
    let trace = names.iter().find(|name| name.ends_with(".pftrace"));
    let page = folder.file("limited.html");
    let said = view(&folder.file(trace.unwrap()), &page, &["--max-events", "50"]);
    assert!(said.contains("later events are left out"), "{said}");
    let mut chromium = Chromium::start();
    chromium.open(&page);
    let notice = chromium.evaluate("document.getElementById('notice').innerText");
    assert!(said.contains(notice.as_str().unwrap()), "{notice}");
    assert!(number(&chromium.evaluate("view.eventCount")) <= 50.0);
}
