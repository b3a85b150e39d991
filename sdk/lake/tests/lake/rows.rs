//! What tables have of a trace.

use std::pin::pin;
use std::task::{Context, Waker};

use support::{Folder, alone};
use tracezero::{Flow, InMemorySession, TraceFuture, Track, counter, end, instant, span};
use tracezero_lake::{ExportOptions, ExportOutcome, Lake, Promoted, Table};

use crate::table::{files, rows, select};

/// Exports what `events` records. Returns the lake's folder.
fn export(options: &ExportOptions, events: impl FnOnce()) -> Folder {
    let session = InMemorySession::start().unwrap();
    events();
    let (trace, _) = session.finish();
    let folder = Folder::empty();
    let mut lake = Lake::open(folder.path()).unwrap();
    let exported = lake.export(&trace[..], "app.pftrace", options).unwrap();
    assert_eq!(exported.outcome, ExportOutcome::Added);
    folder
}

#[test]
fn slices_have_parents_depths_and_owners() {
    let _alone = alone();
    let lake = export(&ExportOptions::default(), || {
        let _outer = span!("app", "outer");
        drop(span!("db", "inner"));
        instant!("app", "point");
    });
    let slices = rows(lake.path(), "slice");
    let columns = ["id", "parent_id", "depth", "category", "name", "kind"];
    assert_eq!(
        select(&slices, &columns),
        [
            "0 - 0 app outer slice",
            "1 0 1 db inner slice",
            "2 0 1 app point instant"
        ]
    );
    let number = |row: usize, column: &str| slices[row][column].parse::<i64>().unwrap();
    assert_eq!(number(0, "dur"), number(0, "self_dur") + number(1, "dur"));
    assert_eq!(number(2, "dur"), 0);
    assert!(number(0, "ts") < number(1, "ts"));
    let threads = rows(lake.path(), "thread");
    assert_eq!(select(&slices[..1], &["utid", "upid"]), ["1 1"]);
    assert_eq!(slices[0]["thread_name"], threads[0]["name"]);
    let processes = rows(lake.path(), "process");
    assert_eq!(slices[0]["process_name"], processes[0]["name"]);
    assert_eq!(processes[0]["pid"], std::process::id().to_string());
}

#[test]
fn args_have_trace_processors_keys() {
    let _alone = alone();
    let lake = export(&ExportOptions::default(), || {
        let span = span!(
            "app",
            "work",
            rows = 3,
            "http.path" = "/a",
            ratio = 0.5,
            ok = true
        );
        end!(span, result = -1);
    });
    let slices = rows(lake.path(), "slice");
    let args = rows(lake.path(), "args");
    let columns = [
        "key",
        "value_type",
        "int_value",
        "real_value",
        "string_value",
    ];
    assert_eq!(
        select(&args, &columns),
        [
            "debug.rows int 3 - -",
            "debug.http_path string - - /a",
            "debug.ratio real - 0.5 -",
            "debug.ok bool 1 - -",
            "debug.result int -1 - -",
        ]
    );
    // The argument that came with the end belongs to the slice, too.
    assert!(
        args.iter()
            .all(|row| row["arg_set_id"] == slices[0]["arg_set_id"])
    );
}

#[test]
fn args_keep_their_keys_from_event_to_event() {
    let _alone = alone();
    let lake = export(&ExportOptions::default(), || {
        for number in 0..2 {
            // The first two names have equal lengths, first and last letters.
            instant!("app", "point", size = number, site = number, rows = number);
            instant!("app", "point", rows = [number]);
        }
    });
    let args = rows(lake.path(), "args");
    let round = |number: u32| {
        let scalars =
            ["size", "site", "rows"].map(|name| format!("debug.{name} debug.{name} {number}"));
        let item = format!("debug.rows debug.rows[0] {number}");
        scalars.into_iter().chain([item])
    };
    assert_eq!(
        select(&args, &["flat_key", "key", "int_value"]),
        round(0).chain(round(1)).collect::<Vec<_>>()
    );
}

#[test]
fn promoted_args_have_columns() {
    let _alone = alone();
    let mut options = ExportOptions::default();
    options.promoted = Promoted::parse("http.status:int,tenant,late:real").unwrap();
    let lake = export(&options, || {
        let span = span!("app", "request", "http.status" = 404, tenant = "blue");
        end!(span, late = 1.5);
        drop(span!("app", "other", tenant = 7));
    });
    let slices = rows(lake.path(), "slice");
    let columns = ["name", "a_http_status", "a_tenant", "a_late"];
    assert_eq!(
        select(&slices, &columns),
        ["request 404 blue 1.5", "other - 7 -"]
    );
}

#[test]
fn flows_lead_from_slice_to_slice() {
    let _alone = alone();
    let lake = export(&ExportOptions::default(), || {
        let flow = Flow::new();
        drop(span!("app", "sent", flow: &flow));
        drop(span!("app", "other"));
        drop(span!("app", "passed on", flow: &flow));
        instant!("app", "received", last_flow: &flow);
        drop(span!("app", "too late", last_flow: &flow));
    });
    let flows = rows(lake.path(), "flow");
    assert_eq!(select(&flows, &["slice_out", "slice_in"]), ["0 2", "2 3"]);
}

#[test]
fn counters_have_values_of_their_type() {
    let _alone = alone();
    let lake = export(&ExportOptions::default(), || {
        counter!("queue", "jobs", 7);
        counter!("queue", "load", 0.25);
    });
    let counters = rows(lake.path(), "counter");
    assert_eq!(
        select(&counters, &["value", "value_int"]),
        ["7.0 7", "0.25 -"]
    );
    let tracks = rows(lake.path(), "track");
    let of = |row: usize| {
        let id = &counters[row]["track_id"];
        tracks.iter().find(|track| track["id"] == *id).unwrap()
    };
    assert_eq!(
        select(&[of(0).clone()], &["kind", "name"]),
        ["counter jobs"]
    );
}

#[test]
fn cancelled_futures_and_open_slices_are_told_apart() {
    let _alone = alone();
    let track = Track::new("requests");
    let mut open = None;
    let lake = export(&ExportOptions::default(), || {
        let future = std::future::pending::<()>().traced(tracezero::async_span!("app", "request"));
        let mut future = Box::pin(future);
        let future_ref = pin!(&mut future);
        let _ = std::future::Future::poll(future_ref, &mut Context::from_waker(Waker::noop()));
        drop(future);
        open = Some(span!("app", "open", track: &track));
    });
    drop(open);
    let slices = rows(lake.path(), "slice");
    let cancelled = slices
        .iter()
        .filter(|row| row.get("outcome").is_some_and(|it| it == "cancelled"));
    assert!(cancelled.count() >= 1, "{slices:?}");
    let open = slices.iter().find(|row| row["name"] == "open").unwrap();
    assert_eq!(
        select(std::slice::from_ref(open), &["dur", "self_dur"]),
        ["-1 -"]
    );
    assert_eq!(rows(lake.path(), "trace")[0]["open_slices"], "1");
}

#[test]
fn row_of_the_trace_has_its_figures() {
    let _alone = alone();
    let mut options = ExportOptions::default();
    options.service = Some("my api/v2".to_owned());
    let lake = export(&options, || drop(span!("app", "work")));
    let traces = rows(lake.path(), "trace");
    let [trace] = &traces[..] else {
        panic!("one trace: {traces:?}")
    };
    let columns = ["service_name", "events", "lost_packets", "errors", "source"];
    assert_eq!(select(&traces, &columns), ["my api/v2 2 0 0 app.pftrace"]);
    assert!(trace["start_time"].starts_with("20"), "{trace:?}");
    let day = &trace["start_time"][..10];
    let folder = lake
        .path()
        .join(format!("trace/day={day}/service=my%20api%2Fv2"));
    let name = format!("{}-000.parquet", trace["trace_id"]);
    assert_eq!(files(&lake.path().join("trace")), [folder.join(name)]);
}

#[test]
fn each_table_has_a_file_even_without_rows() {
    let _alone = alone();
    let lake = export(&ExportOptions::default(), || {});
    for table in Table::ALL {
        assert_eq!(
            files(&lake.path().join(table.name())).len(),
            1,
            "{}",
            table.name()
        );
    }
}
