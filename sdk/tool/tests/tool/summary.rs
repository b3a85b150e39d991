//! `tracezero summary`.

use serde_json::{Value, json};
use support::Folder;

use crate::process::{run, run_on, run_with_input};
use crate::traces::{SHOP, attributes, futures, lapped_states, recorded, slices};

#[test]
fn a_trace_is_summarized_in_tables() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = run_on(&file, &["summary", "FILE"]).fine();
    let expected = "\
duration   10.0 µs
size       331 B in 14 packets, 9 events
written by 1 process, 1 sequence with events
tracks     3, 1 of them threads
lost       nothing that the trace reports

tracks
  process  track    events  spans     busy
  shop 10  main 11       7      3  10.0 µs
  shop 10  queue         2      0     0 ns

spans on threads, by total
  category  span      count    total     self     mean      min      max      p50      p99
  shop      checkout      1  10.0 µs  6.00 µs  10.0 µs  10.0 µs  10.0 µs  10.0 µs  10.0 µs
  shop      read          2  4.00 µs  4.00 µs  2.00 µs  1.00 µs  3.00 µs  1.00 µs  3.00 µs

counters
  process  counter  unit   count  min  max  mean  last
  shop 10  queue    bytes      2    2    4     3     2

instants
  category  instant  count
  shop      paid         1

other packets
  packet          field  count  bytes
  clock_snapshot      6      1     18
  trace_config       33      1      0
";
    assert_eq!(run.text(), expected);
}

#[test]
fn rows_are_limited_and_sorted_as_asked() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = run_on(&file, &["summary", "--top", "1", "--sort", "count", "FILE"]).fine();
    assert!(run.text().contains(
        "spans on threads, by count
  category  span  count    total     self     mean      min      max      p50      p99
  shop      read      2  4.00 µs  4.00 µs  2.00 µs  1.00 µs  3.00 µs  1.00 µs  3.00 µs
  and 1 more: --top 0 shows all
"
    ));
}

#[test]
fn programs_get_the_same_as_json() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = run_on(&file, &["summary", "--json", "FILE"]).fine();
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(summary["duration_ns"], 10_000);
    let checkout = &summary["spans"][0];
    assert_eq!(checkout["name"], "checkout");
    assert_eq!(checkout["self_ns"], 6_000);
    assert_eq!(summary["counters"][0]["last"], 2);
    assert_eq!(summary["losses"]["gaps"], 0);
}

#[test]
fn head_says_which_services_and_machines_the_trace_comes_from() {
    let files = Folder::empty();
    let trace = [
        attributes(
            None,
            &[
                ("service.name", "api"),
                ("service.version", "1.2"),
                ("host.name", "a"),
                ("host.id", "17"),
                ("team", "x\u{1b}y"),
                ("telemetry.sdk.name", "tracezero"),
            ],
        ),
        attributes(
            None,
            &[
                ("service.name", "worker"),
                ("process.executable.name", "w"),
                ("host.name", "a"),
                ("host.id", "17"),
            ],
        ),
        attributes(Some(3), &[("host.name", "b"), ("host.boot_id", "9")]),
        SHOP.trace(),
    ];
    let file = files.write("merged.pftrace", trace.concat());
    let run = run_on(&file, &["summary", "FILE"]).fine();
    let expected = "\
service    api 1.2
host       a, id 17
attributes team=x\\u{1b}y
service    worker, program w
host       b, boot 9
duration   10.0 µs
";
    assert!(run.text().starts_with(expected), "{}", run.text());
    let run = run_on(&file, &["summary", "--json", "FILE"]).fine();
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    let identities = &summary["identities"];
    assert_eq!(
        identities[0]["attributes"]["telemetry.sdk.name"],
        "tracezero"
    );
    assert_eq!(identities[0]["machine_id"], Value::Null);
    assert_eq!(identities[2]["machine_id"], 3);
}

#[test]
fn futures_polls_and_open_spans_are_counted_apart() {
    let files = Folder::empty();
    let file = files.write("futures.pftrace", futures());
    let run = run_on(&file, &["summary", "FILE"]).fine();
    let expected = "\
open       3 spans, see below

tracks
  process  track             events  spans     busy
  shop 10  main 10                6      2  3.00 µs
  shop 10  request                2      1  7.00 µs
  shop 10  request / upload       1      0     0 ns

spans on threads, by total
  category  span     count    total     self     mean      min      max      p50      p99
            request      2  3.00 µs  3.00 µs  1.50 µs  1.00 µs  2.00 µs  1.00 µs  2.00 µs

spans on other tracks, by total
  category  span     count    total     self     mean      min      max      p50      p99
            request      1  7.00 µs  7.00 µs  7.00 µs  7.00 µs  7.00 µs  7.00 µs  7.00 µs

spans open at the end
  process  track             category  span      since      age
  shop 10  main 10                     serve   8.00 µs  2.00 µs
  shop 10  main 10                     wait    10.0 µs     0 ns
  shop 10  request / upload            upload  3.00 µs  7.00 µs
";
    let (_, tables) = run.text().split_once("trace reports\n").unwrap();
    assert_eq!(tables, expected);
    let run = run_on(&file, &["summary", "--json", "--top", "1", "FILE"]).fine();
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    let spans = summary["spans"].as_array().unwrap();
    let on: Vec<_> = spans
        .iter()
        .map(|span| (&span["on"], &span["count"]))
        .collect();
    assert_eq!(
        on,
        [(&"thread".into(), &2.into()), (&"track".into(), &1.into())]
    );
    assert_eq!(summary["unfinished_spans"], 3);
    let open = json!([{
        "process": "shop 10", "track": "main 10", "category": "", "name": "serve", "on": "thread",
        "since_ns": 8000, "age_ns": 2000,
    }]);
    assert_eq!(summary["open_spans"], open);
}

#[test]
fn tracks_with_the_most_events_come_first_in_json_too() {
    let trace = slices(&[(1, "a"), (2, "b"), (2, "c")]);
    let run = run_with_input(&["summary", "--json", "--top", "1", "-"], &trace).fine();
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    let tracks = summary["tracks"].as_array().unwrap();
    assert_eq!(tracks.len(), 1);
    assert_eq!(tracks[0]["track"], "(0x2)");
}

#[test]
fn a_recording_has_all_that_was_recorded() {
    let trace = recorded();
    let run = run_with_input(&["summary", "--json", "-"], &trace).fine();
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    for span in summary["spans"].as_array().unwrap() {
        assert_eq!(span["count"], 100, "{span}");
    }
    assert_eq!(summary["spans"].as_array().unwrap().len(), 2);
    let counter = &summary["counters"][0];
    assert_eq!(counter["counter"], "requests");
    assert_eq!(
        (&counter["min"], &counter["max"]),
        (&0.0.into(), &99.0.into())
    );
    assert_eq!(counter["last"], 99);
    assert_eq!(summary["instants"][0]["name"], "done");
    assert_eq!(summary["unfinished_spans"], 0);
    assert_eq!(summary["bytes"], trace.len());
}

#[test]
fn states_are_listed_and_what_is_folded_is_not_lost() {
    let run = run_with_input(&["summary", "-"], &lapped_states(10_000, "text")).fine();
    let text = run.text();
    assert!(
        text.contains("lost       nothing that the trace reports"),
        "{text}"
    );
    assert!(!text.contains("\nlosses"), "{text}");
    assert!(text.contains("\nstates at the end"), "{text}");
    let run = run_with_input(&["summary", "--json", "-"], &lapped_states(10_000, "text")).fine();
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    let [state] = &summary["states"].as_array().unwrap()[..] else {
        panic!("{summary}");
    };
    assert_eq!(
        (&state["field"], &state["entries"]),
        (&json!(900), &json!(2))
    );
    let [account] = &summary["states_of_overwritten"].as_array().unwrap()[..] else {
        panic!("{summary}");
    };
    assert_eq!(account["data_source"], "com.example.changes");
    assert_eq!(
        (&account["not_folded"], &account["error"]),
        (&json!(0), &json!(""))
    );
    let counts = [&state["changes"], &account["folded"]].map(|count| count.as_u64().unwrap());
    assert_eq!(counts.into_iter().sum::<u64>(), 10_000);
    assert!(counts[1] > 0, "{counts:?}");
}

#[test]
fn a_state_without_room_is_listed_with_its_losses() {
    let trace = lapped_states(1000, &"x".repeat(1000));
    let run = run_with_input(&["summary", "--json", "-"], &trace).fine();
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    let account = &summary["states_of_overwritten"][0];
    let error = account["error"].as_str().unwrap();
    assert!(error.contains("limit"), "{error}");
    let lost = &summary["losses"]["sequences"][0]["packets"]["overwritten"];
    assert_eq!(&account["not_folded"], lost);
    assert!(lost.as_u64().unwrap() > 900, "{lost}");
    let table = run_with_input(&["summary", "-"], &trace).fine();
    assert!(table.text().contains(error), "{}", table.text());
}

#[test]
fn several_traces_are_added_up_by_name() {
    let files = Folder::empty();
    let shop = files.write("shop.pftrace", SHOP.trace());
    let futures = files.write("futures.pftrace", futures());
    let paths = [&shop, &shop, &futures].map(|path| path.to_str().unwrap());
    let run = run(&[&["summary"], &paths[..]].concat()).fine();
    let (head, tables) = run.text().split_once("\nfiles\n").unwrap();
    let expected = "\
files      3
duration   30.0 µs in all
size       923 B in 41 packets, 27 events
lost       nothing that the traces report
open       3 spans
";
    assert_eq!(head, expected);
    let (listed, tables) = tables.split_once("\n\n").unwrap();
    let listed = listed.lines().skip(1);
    let listed: Vec<Vec<_>> = listed.map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(listed[2], [paths[2], "10.0", "µs", "261", "B", "9", "3"]);
    assert_eq!(listed.len(), 3);
    let expected = "\
spans on threads, by total
  category  span      count    total     self     mean      min      max      p50      p99
  shop      checkout      2  20.0 µs  12.0 µs  10.0 µs  10.0 µs  10.0 µs  10.0 µs  10.0 µs
  shop      read          4  8.00 µs  8.00 µs  2.00 µs  1.00 µs  3.00 µs  1.00 µs  3.00 µs
            request       2  3.00 µs  3.00 µs  1.50 µs  1.00 µs  2.00 µs  1.00 µs  2.00 µs

spans on other tracks, by total
  category  span     count    total     self     mean      min      max      p50      p99
            request      1  7.00 µs  7.00 µs  7.00 µs  7.00 µs  7.00 µs  7.00 µs  7.00 µs

counters
  counter  unit   count  min  max  mean
  queue    bytes      4    2    4     3

instants
  category  instant  count
  shop      paid         2

other packets
  packet          field  count  bytes
  clock_snapshot      6      2     36
  trace_config       33      2      0
";
    assert_eq!(tables, expected);
}

#[test]
fn losses_of_several_traces_are_told_by_file() {
    let files = Folder::empty();
    let whole = files.write("whole.pftrace", SHOP.trace());
    let cut = SHOP.trace();
    let cut = files.write("cut.pftrace", &cut[..cut.len() - 3]);
    let paths = [&whole, &cut].map(|path| path.to_str().unwrap());
    let text = run(&[&["summary"], &paths[..]].concat());
    assert_eq!(text.status, 1, "{text:?}");
    let (_, losses) = text.text().split_once("losses, by file").unwrap();
    assert!(losses.contains("cut.pftrace"), "{losses}");
    assert!(!losses.contains("whole.pftrace"), "{losses}");
    let json = run(&[&["summary", "--json"], &paths[..]].concat());
    let summary: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&summary["file_count"], &summary["damaged_places"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(summary["files"][1]["damaged_places"], 1);
    assert_eq!(summary["spans"][0]["name"], "checkout");
}

#[test]
fn an_unreadable_file_does_not_hide_the_others() {
    let files = Folder::empty();
    let shop = files.write("shop.pftrace", SHOP.trace());
    let shop = shop.to_str().unwrap();
    let run_all = run(&["summary", shop, "/nowhere.pftrace", shop]);
    assert_eq!(run_all.status, 2, "{run_all:?}");
    assert!(run_all.stderr.contains("/nowhere.pftrace"), "{run_all:?}");
    assert!(run_all.text().starts_with("files      2\n"), "{run_all:?}");
    let states = run(&["summary", "--states", shop, shop]);
    assert_eq!(states.status, 2, "{states:?}");
    assert!(states.stderr.contains("give one file"), "{states:?}");
}
