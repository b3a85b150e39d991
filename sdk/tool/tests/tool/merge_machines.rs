//! `tracezero merge` of traces of several machines.

use std::collections::BTreeMap;
use std::path::Path;

use protozero::{Decoder, Field, Value, append_varint};
use serde_json::Value as Json;
use support::{Folder, alone};
use tracezero::reader::{EventKind, Record, TraceReader};
use tracezero::{
    BufferConfig, DataSourceConfig, Flow, TraceConfig, TrackEventConfig, instant, span,
};

use crate::process::{Run, run, run_with_input};
use crate::traces::{Maker, SHOP, named_track, slices};

/// The numbers of requests in the traces of this file.
const REQUESTS: u64 = 40;
const SECOND_NS: i64 = 1_000_000_000;

/// How another machine differs from the one that the tests run on.
#[derive(Clone, Copy, Default)]
struct Machine {
    /// What is added to its boot time.
    boot_ns: i64,
    /// How wrong its time of day is.
    time_of_day_ns: i64,
    host_id: &'static str,
    boot_id: &'static str,
}

const CLIENT: Machine = Machine {
    boot_ns: 0,
    time_of_day_ns: 0,
    host_id: "client-id",
    boot_id: "boot-1",
};
const SERVER: Machine = Machine {
    boot_ns: 5 * SECOND_NS,
    time_of_day_ns: 0,
    host_id: "server-id",
    boot_id: "boot-2",
};

impl Machine {
    /// Makes a trace of this machine look as if another one had recorded it.
    fn pretend(self, trace: &[u8]) -> Vec<u8> {
        let mut out = self.attributes();
        for packet in Decoder::new(trace).fields() {
            let Value::Bytes(packet) = packet.unwrap().value else {
                panic!("a trace has packets");
            };
            put_bytes(1, &self.move_packet(packet), &mut out);
        }
        out
    }

    fn attributes(self) -> Vec<u8> {
        let mut attributes = Vec::new();
        let values = [
            ("host.id", self.host_id),
            ("host.boot_id", self.boot_id),
            ("host.name", self.host_id.trim_end_matches("-id")),
        ];
        for (key, value) in values.into_iter().filter(|(_, value)| !value.is_empty()) {
            let mut attribute = Vec::new();
            put_bytes(1, key.as_bytes(), &mut attribute);
            put_bytes(3, value.as_bytes(), &mut attribute);
            put_bytes(1, &attribute, &mut attributes);
        }
        let mut packet = Vec::new();
        put_bytes(126, &attributes, &mut packet);
        put_varint(10, 1, &mut packet);
        let mut out = Vec::new();
        put_bytes(1, &packet, &mut out);
        out
    }

    /// Moves the times of a packet. Events count time from the snapshots of their sequences, so
    /// only these and the times on builtin clocks must be moved.
    fn move_packet(self, packet: &[u8]) -> Vec<u8> {
        let head = Decoder::new(packet);
        let clock = head.last::<protozero::types::Uint32>(58).unwrap();
        let flags = head.last::<protozero::types::Uint32>(13).unwrap();
        let is_on_boot_clock = clock == Some(6) || (clock.is_none() && flags.unwrap_or(0) & 2 == 0);
        let mut out = Vec::new();
        for field in Decoder::new(packet).fields() {
            match field.unwrap() {
                Field {
                    number: 8,
                    value: Value::Varint(time_ns),
                } if is_on_boot_clock => put_varint(8, moved(time_ns, self.boot_ns), &mut out),
                Field {
                    number: 6,
                    value: Value::Bytes(snapshot),
                } => put_bytes(6, &self.move_snapshot(snapshot), &mut out),
                other => put_field(other, &mut out),
            }
        }
        out
    }

    fn move_snapshot(self, snapshot: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for clock in Decoder::new(snapshot).fields() {
            let clock = clock.unwrap();
            let Value::Bytes(content) = clock.value else {
                put_field(clock, &mut out);
                continue;
            };
            let decoder = Decoder::new(content);
            let id = decoder.last::<protozero::types::Uint32>(1).unwrap();
            let by_ns = match id.unwrap() {
                1 | 2 => self.time_of_day_ns,
                3..64 => self.boot_ns,
                _ => 0,
            };
            let mut moved_clock = Vec::new();
            for field in decoder.fields() {
                match field.unwrap() {
                    Field {
                        number: 2,
                        value: Value::Varint(time_ns),
                    } => put_varint(2, moved(time_ns, by_ns), &mut moved_clock),
                    other => put_field(other, &mut moved_clock),
                }
            }
            put_bytes(clock.number, &moved_clock, &mut out);
        }
        out
    }
}

fn moved(time_ns: u64, by_ns: i64) -> u64 {
    time_ns.checked_add_signed(by_ns).unwrap()
}

fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    append_varint(u64::from(number) << 3, out);
    append_varint(value, out);
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    append_varint(u64::from(number) << 3 | 2, out);
    append_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_field(field: Field<'_>, out: &mut Vec<u8>) {
    match field.value {
        Value::Varint(value) => put_varint(field.number, value, out),
        Value::Bytes(bytes) => put_bytes(field.number, bytes, out),
        Value::Fixed32(value) => {
            append_varint(u64::from(field.number) << 3 | 5, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Value::Fixed64(value) => {
            append_varint(u64::from(field.number) << 3 | 1, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// The directions of the flows between client and server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flows {
    None,
    Requests,
    RequestsAndResponses,
}

/// Records requests. Returns the traces of the client and of the server.
fn requests(flows: Flows) -> [Vec<u8>; 2] {
    let _alone = alone();
    let side = |category| {
        let events = TrackEventConfig::new().disable("*").enable(category);
        let config = TraceConfig::empty().add_buffer(BufferConfig::discard(1024));
        let source = DataSourceConfig::new("track_event").track_event(&events);
        config.add_data_source(source).record_in_memory().unwrap()
    };
    let (client, server) = (side("client"), side("server"));
    let link = |number: u64, is_sent: bool| is_sent.then(|| Flow::global(number));
    for number in 0..REQUESTS {
        let sent = link(number, flows != Flows::None);
        let replied = link(number + REQUESTS, flows == Flows::RequestsAndResponses);
        let _call = match &sent {
            Some(flow) => span!("client", "call", number, flow: flow),
            None => span!("client", "call", number),
        };
        {
            let _serve = match &sent {
                Some(flow) => span!("server", "serve", number, last_flow: flow),
                None => span!("server", "serve", number),
            };
            std::hint::black_box((0..2_000).sum::<u64>());
            if let Some(flow) = &replied {
                instant!("server", "reply", flow: flow);
            }
        }
        if let Some(flow) = &replied {
            instant!("client", "receive", last_flow: flow);
        }
    }
    [client.finish().0, server.finish().0]
}

/// Merges traces `0.pftrace`, `1.pftrace` and so on.
fn merge(files: &Folder, traces: &[Vec<u8>], options: &[&str]) -> (Run, Vec<u8>) {
    let run = try_merge(files, traces, options);
    assert_eq!(run.status, 0, "{run:?}");
    (run, files.read("merged"))
}

/// Options name files as `0`, `1` and so on.
fn try_merge(files: &Folder, traces: &[Vec<u8>], options: &[&str]) -> Run {
    let mut args = vec!["merge".to_owned()];
    for (index, trace) in traces.iter().enumerate() {
        args.push(path(files, &index.to_string()));
        files.write(format!("{index}.pftrace"), trace);
    }
    args.extend(["-o".to_owned(), path_of(&files.file("merged"))]);
    for option in options {
        match option.split_once('=') {
            Some((file, value)) => args.push(format!("{}={value}", path(files, file))),
            None => args.push((*option).to_owned()),
        }
    }
    let mut run = run(&args);
    // Without the folder, whose name differs from run to run.
    let folder = format!("{}/", path_of(files.path()));
    run.stderr = run.stderr.replace(&folder, "");
    run
}

fn path(files: &Folder, name: &str) -> String {
    path_of(&files.file(format!("{name}.pftrace")))
}

fn path_of(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The times of the events of a trace by machine, name and kind, in the order of the file.
fn times(trace: &[u8]) -> BTreeMap<(u32, String, bool), Vec<u64>> {
    let mut reader = TraceReader::new(trace);
    let mut times: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    let mut open: BTreeMap<_, Vec<String>> = BTreeMap::new();
    while let Some(record) = reader.next().unwrap() {
        let Record::Event(event) = record else {
            continue;
        };
        let is_end = event.head.kind == EventKind::SliceEnd;
        let stack = open.entry(event.head.track).or_default();
        let name = match event.head.kind {
            EventKind::SliceEnd => stack.pop().unwrap(),
            _ => event.name().to_owned(),
        };
        if event.head.kind == EventKind::SliceBegin {
            stack.push(name.clone());
        }
        let machine = event.tracks().track(event.head.track).machine_id;
        let key = (machine, name, is_end);
        times.entry(key).or_default().push(event.head.timestamp_ns);
    }
    times
}

#[track_caller]
fn check_is_clean(trace: &[u8]) {
    let check = run_with_input(&["check", "--strict", "-"], trace);
    assert_eq!(check.status, 0, "{check:?}");
}

/// Returns the only number of seconds that a note moves the clock by, in nanoseconds.
#[track_caller]
fn offset_ns(run: &Run) -> i64 {
    let (_, offset) = run.stderr.split_once("clock moved by ").unwrap();
    let (seconds, _) = offset.split_once(" s").unwrap();
    (seconds.parse::<f64>().unwrap() * 1e9).round() as i64
}

/// Expects that the server's events have the given times, all moved by the same time. Returns it.
#[track_caller]
fn move_of_server(merged: &[u8], original: &[u8]) -> i64 {
    let (merged, original) = (times(merged), times(original));
    let mut moves = Vec::new();
    for ((_, name, is_end), times) in &original {
        let moved = &merged[&(1, name.clone(), *is_end)];
        assert_eq!(moved.len(), times.len());
        let pairs = moved.iter().zip(times);
        moves.extend(pairs.map(|(moved, time)| moved.wrapping_sub(*time) as i64));
    }
    assert!(moves.iter().all(|by_ns| *by_ns == moves[0]), "{moves:?}");
    moves[0]
}

#[test]
fn times_of_day_place_machines_on_one_clock() {
    let files = Folder::empty();
    let [client, server] = requests(Flows::None);
    let traces = [CLIENT.pretend(&client), SERVER.pretend(&server)];
    let (run, merged) = merge(&files, &traces, &[]);
    check_is_clean(&merged);
    let moved_ns = offset_ns(&run);
    let text = run.stderr.lines().next().unwrap();
    let expected = "by the times of day, and as exact as these are; no flow joins the machines";
    assert!(
        text.starts_with("note: 1.pftrace: ") && text.ends_with(expected),
        "{text}"
    );
    // The clocks of a snapshot are read one after the other.
    assert!(
        (moved_ns + SERVER.boot_ns).abs() < SECOND_NS / 100,
        "{moved_ns}"
    );
    assert_eq!(move_of_server(&merged, &server), moved_ns + SERVER.boot_ns);
    assert_eq!(
        times(&merged)[&(0, "call".to_owned(), false)].len() as u64,
        REQUESTS
    );
}

#[test]
fn equal_processes_and_tracks_of_machines_are_kept_apart() {
    let files = Folder::empty();
    let traces = [CLIENT.pretend(&SHOP.trace()), SERVER.pretend(&SHOP.trace())];
    let (_, merged) = merge(&files, &traces, &[]);
    check_is_clean(&merged);
    let summary = run_with_input(&["summary", "--json", "-"], &merged).fine();
    let summary: Json = serde_json::from_slice(&summary.stdout).unwrap();
    let tracks = summary["tracks"].as_array().unwrap();
    let mut tracks: Vec<_> = tracks
        .iter()
        .map(|track| {
            format!(
                "{}, {}: {}",
                track["process"], track["track"], track["events"]
            )
        })
        .collect();
    tracks.sort();
    assert_eq!(
        tracks,
        [
            r#""shop 10 (machine 1)", "main 11": 7"#,
            r#""shop 10 (machine 1)", "queue": 2"#,
            r#""shop 10", "main 11": 7"#,
            r#""shop 10", "queue": 2"#,
        ]
    );
    // All spans keep their times, which are the same on both machines.
    assert_eq!(summary["duration_ns"], 10_000);
}

#[test]
fn files_of_one_machine_share_its_clock_and_tracks() {
    let files = Folder::empty();
    let other = Maker {
        pid: 20,
        uuid: 200,
        ..SHOP
    };
    let traces = [
        CLIENT.pretend(&SHOP.trace()),
        SERVER.pretend(&SHOP.trace()),
        SERVER.pretend(&other.trace()),
        SERVER.pretend(
            &Maker {
                start_ns: 2_000_000,
                ..SHOP
            }
            .trace(),
        ),
    ];
    let (run, merged) = merge(&files, &traces, &[]);
    check_is_clean(&merged);
    assert_eq!(
        run.stderr,
        "note: 1.pftrace and 2 more of its machine: clock moved by -5 s, by the times of day, and as \
         exact as these are; no flow joins the machines\n61 packets of 4 files\n"
    );
    let spans = times(&merged);
    assert_eq!(
        spans[&(1, "checkout".to_owned(), false)],
        [1_000_000, 1_000_000, 2_000_000]
    );
    let summary = run_with_input(&["summary", "--json", "-"], &merged).fine();
    let summary: Json = serde_json::from_slice(&summary.stdout).unwrap();
    assert_eq!(summary["tracks"].as_array().unwrap().len(), 6);
}

#[test]
fn flows_in_both_directions_correct_a_wrong_time_of_day() {
    let files = Folder::empty();
    let [client, server] = requests(Flows::RequestsAndResponses);
    let wrong = Machine {
        time_of_day_ns: 3 * SECOND_NS,
        ..SERVER
    };
    let traces = [CLIENT.pretend(&client), wrong.pretend(&server)];
    let (run, merged) = merge(&files, &traces, &[]);
    check_is_clean(&merged);
    let text = run.stderr.lines().next().unwrap();
    assert!(text.contains(" by 80 flows, within "), "{text}");
    assert!(
        text.ends_with("; the times of day are off by 3.00 s"),
        "{text}"
    );
    let times = times(&merged);
    let of = |machine, name: &str| &times[&(machine, name.to_owned(), false)];
    let pairs = |sent: &[u64], received: &[u64]| sent.iter().zip(received).all(|(a, b)| a <= b);
    assert!(pairs(of(0, "call"), of(1, "serve")));
    assert!(pairs(of(1, "reply"), of(0, "receive")));
    let moved_ns = move_of_server(&merged, &server);
    assert!(moved_ns.abs() < 1_000_000, "{moved_ns}");
}

#[test]
fn flows_confirm_a_right_time_of_day() {
    let files = Folder::empty();
    let [client, server] = [0, 1].map(slow_request);
    let traces = [CLIENT.pretend(&client), SERVER.pretend(&server)];
    let (run, _) = merge(&files, &traces, &[]);
    assert_eq!(
        run.stderr.lines().next().unwrap(),
        "note: 1.pftrace: clock moved by -5 s, by the times of day, which 2 flows confirm within 2.00 ms"
    );
}

#[test]
fn one_way_flows_change_the_time_of_day_as_little_as_needed() {
    let files = Folder::empty();
    let [client, server] = requests(Flows::Requests);
    let behind = Machine {
        time_of_day_ns: -2 * SECOND_NS,
        ..SERVER
    };
    let traces = [CLIENT.pretend(&client), behind.pretend(&server)];
    let (run, merged) = merge(&files, &traces, &[]);
    let text = run.stderr.lines().next().unwrap();
    assert!(
        text.contains("by the times of day, changed by 2.00 s so that 40 flows"),
        "{text}"
    );
    let times = times(&merged);
    let calls = &times[&(0, "call".to_owned(), false)];
    let serves = &times[&(1, "serve".to_owned(), false)];
    let latency = calls
        .iter()
        .zip(serves)
        .map(|(call, serve)| serve.checked_sub(*call).unwrap());
    assert_eq!(latency.min(), Some(0));

    // If the arrows go forward, the times of day count.
    let ahead = Machine {
        time_of_day_ns: 2 * SECOND_NS,
        ..SERVER
    };
    let (run, _) = merge(
        &files,
        &[CLIENT.pretend(&client), ahead.pretend(&server)],
        &[],
    );
    assert!(
        run.stderr
            .contains("as exact as these are; 40 flows allow it"),
        "{run:?}"
    );
    let moved_ns = offset_ns(&run);
    assert!(
        (moved_ns + 3 * SECOND_NS).abs() < SECOND_NS / 100,
        "{moved_ns}"
    );
}

/// Encodes the trace of one side of a request: the client calls at 0 ms, and receives at 8 ms. The
/// server serves at 2 ms, and replies at 6 ms. Only the times of day tell which event sends.
fn slow_request(side: u64) -> Vec<u8> {
    let events: &[(u64, &str, u64)] = match side {
        0 => &[(0, "call", 1), (8, "receive", 2)],
        _ => &[(2, "serve", 1), (6, "reply", 2)],
    };
    let mut trace = Vec::new();
    let mut add = |packet: &[u8]| put_bytes(1, packet, &mut trace);
    let mut snapshot = Vec::new();
    for (id, time_ns) in [(6, 1_000_000_000), (1, 9_000_000_000)] {
        let mut clock = Vec::new();
        put_varint(1, id, &mut clock);
        put_varint(2, time_ns, &mut clock);
        put_bytes(1, &clock, &mut snapshot);
    }
    let mut packet = Vec::new();
    put_bytes(6, &snapshot, &mut packet);
    put_varint(10, 1, &mut packet);
    add(&packet);
    let mut track = Vec::new();
    put_varint(1, 100 + side, &mut track);
    put_bytes(2, b"requests", &mut track);
    let mut packet = Vec::new();
    put_bytes(60, &track, &mut packet);
    put_varint(10, 2, &mut packet);
    add(&packet);
    for (at_ms, name, flow) in events {
        let mut event = Vec::new();
        put_varint(9, 3, &mut event);
        put_varint(11, 100 + side, &mut event);
        put_bytes(23, name.as_bytes(), &mut event);
        append_varint(47 << 3 | 1, &mut event);
        event.extend_from_slice(&flow.to_le_bytes());
        let mut packet = Vec::new();
        put_varint(8, 1_000_000_000 + at_ms * 1_000_000, &mut packet);
        put_varint(10, 2, &mut packet);
        put_bytes(11, &event, &mut packet);
        add(&packet);
    }
    trace
}

#[test]
fn given_offset_counts_whatever_flows_say() {
    let files = Folder::empty();
    let [client, server] = requests(Flows::RequestsAndResponses);
    let traces = [CLIENT.pretend(&client), SERVER.pretend(&server)];
    let options = ["--clock-offset", "1=-4999.5ms"];
    let (run, merged) = merge(&files, &traces, &options);
    assert!(
        run.stderr
            .starts_with("note: 1.pftrace: clock moved by -4.9995 s, as --clock-offset says\n")
    );
    assert_eq!(move_of_server(&merged, &server), 500_000);
    let (run, merged) = merge(&files, &traces, &["--clock-offset", "1=0"]);
    assert!(
        run.stderr
            .contains("clock not moved, as --clock-offset says"),
        "{run:?}"
    );
    assert_eq!(move_of_server(&merged, &server), 5 * SECOND_NS);
}

#[test]
fn offsets_and_machines_of_other_files_are_refused() {
    let files = Folder::empty();
    let traces = [CLIENT.pretend(&SHOP.trace()), SERVER.pretend(&SHOP.trace())];
    for (options, error) in [
        (&["--clock-offset", "2=1s"][..], "not one of the traces"),
        (&["--machine", "2=server"], "not one of the traces"),
        (
            &["--machine", "1=a", "--machine", "1=b"],
            "names 1.pftrace twice",
        ),
        (
            &["--clock-offset", "0=1s"],
            "would move the clock of the first trace by +1 s",
        ),
        (&["--clock-offset", "1=soon"], "\"soon\" is no duration"),
    ] {
        let run = try_merge(&files, &traces, options);
        assert_eq!(run.status, 2, "{run:?}");
        assert!(run.stderr.contains(error), "{run:?}");
    }
}

#[test]
fn another_boot_is_another_machine() {
    let files = Folder::empty();
    let later = Machine {
        boot_id: "boot-3",
        ..CLIENT
    };
    let traces = [CLIENT.pretend(&SHOP.trace()), later.pretend(&SHOP.trace())];
    let (_, merged) = merge(&files, &traces, &[]);
    assert!(times(&merged).contains_key(&(1, "checkout".to_owned(), false)));
}

#[test]
fn containers_of_one_boot_share_its_clock() {
    let files = Folder::empty();
    let container = Machine {
        host_id: "container-id",
        ..CLIENT
    };
    let traces = [
        CLIENT.pretend(&SHOP.trace()),
        container.pretend(&SHOP.trace()),
    ];
    let (run, merged) = merge(&files, &traces, &[]);
    assert!(run.stderr.starts_with(
        "note: 1.pftrace: clock not moved: the boot id says that it is the same clock\n"
    ));
    assert!(times(&merged).contains_key(&(1, "checkout".to_owned(), false)));
}

#[test]
fn user_names_machines_of_traces_that_do_not_tell() {
    let files = Folder::empty();
    let other = Maker {
        start_ns: 9_000_000,
        time_of_day_ns: SHOP.time_of_day_ns - 8_000_000,
        ..SHOP
    };
    let traces = [SHOP.trace(), other.trace()];
    let (run, merged) = merge(&files, &traces, &["--machine", "1=server"]);
    assert!(
        run.stderr
            .starts_with("note: 1.pftrace: clock moved by -0.008 s, "),
        "{run:?}"
    );
    assert_eq!(
        times(&merged)[&(1, "checkout".to_owned(), false)],
        [1_000_000]
    );
    let text = run_with_input(&["cat", "-"], &merged).fine();
    assert!(text.text().contains("server"));
}

#[test]
fn machine_that_ran_before_the_first_was_booted_is_refused() {
    let files = Folder::empty();
    let early = Maker {
        start_ns: 60_000_000_000,
        time_of_day_ns: 100_000_000_000,
        ..SHOP
    };
    let long_ago = Machine {
        time_of_day_ns: -70 * SECOND_NS,
        ..SERVER
    };
    let traces = [
        CLIENT.pretend(&early.trace()),
        long_ago.pretend(&early.trace()),
    ];
    let run = try_merge(&files, &traces, &[]);
    assert_eq!(run.status, 2);
    let expected = "1.pftrace begins 10.0 s before the machine of 0.pftrace was booted, and the trace \
                    counts time from that boot; name 1.pftrace first\n";
    assert!(run.stderr.ends_with(expected), "{run:?}");
}

#[test]
fn clocks_without_time_of_day_and_flows_are_refused() {
    let files = Folder::empty();
    let mut blind = SERVER.attributes();
    blind.extend(named_track(7, "jobs"));
    blind.extend(slices(&[(7, "work")]));
    let traces = [CLIENT.pretend(&SHOP.trace()), blind];
    let run = try_merge(&files, &traces, &[]);
    assert_eq!(run.status, 2);
    assert!(
        run.stderr
            .contains("give --clock-offset 1.pftrace=DURATION"),
        "{run:?}"
    );
    let (_, merged) = merge(&files, &traces, &["--clock-offset", "1=2ms"]);
    assert_eq!(times(&merged)[&(1, "work".to_owned(), false)], [2_001_000]);
}

#[test]
fn third_machine_joins_a_merged_trace_that_comes_first() {
    let files = Folder::empty();
    let traces = [CLIENT.pretend(&SHOP.trace()), SERVER.pretend(&SHOP.trace())];
    let (_, two) = merge(&files, &traces, &[]);
    let third = Machine {
        boot_ns: 9 * SECOND_NS,
        host_id: "third-id",
        boot_id: "boot-3",
        ..SERVER
    };
    let third = third.pretend(&SHOP.trace());
    let (_, three) = merge(&files, &[two.clone(), third.clone()], &[]);
    check_is_clean(&three);
    let times = times(&three);
    for machine in 0..3 {
        assert_eq!(times[&(machine, "checkout".to_owned(), false)], [1_000_000]);
    }
    let run = try_merge(&files, &[third, two], &[]);
    assert_eq!(run.status, 2);
    assert!(
        run.stderr
            .contains("1.pftrace has packets of several machines; name it first")
    );
}
