//! `tracezero merge`.

use serde_json::Value;
use support::Folder;

use crate::process::{Run, run, run_with_input};
use crate::traces::{Maker, SHOP, attributes, recorded};

fn merge(files: &Folder, traces: &[&[u8]]) -> (Run, Vec<u8>) {
    let mut args = vec!["merge".to_owned()];
    for (index, trace) in traces.iter().enumerate() {
        let file = files.write(format!("{index}.pftrace"), trace);
        args.push(file.to_str().unwrap().to_owned());
    }
    let out = files.file("merged.pftrace");
    args.extend(["-o".to_owned(), out.to_str().unwrap().to_owned()]);
    let run = run(&args);
    assert_eq!(run.status, 0, "{run:?}");
    (run, files.read("merged.pftrace"))
}

fn summary(trace: &[u8]) -> Value {
    let run = run_with_input(&["summary", "--json", "-"], trace).fine();
    serde_json::from_slice(&run.stdout).unwrap()
}

#[test]
fn services_of_all_files_are_told() {
    let files = Folder::empty();
    let of = |service| {
        let mut trace = SHOP.trace();
        trace.extend(attributes(
            None,
            &[("service.name", service), ("host.id", "17")],
        ));
        trace
    };
    let (_, merged) = merge(&files, &[&of("front"), &of("stock")]);
    let merged = summary(&merged);
    let identities = merged["identities"].as_array().unwrap().iter();
    let services: Vec<_> = identities
        .map(|it| &it["attributes"]["service.name"])
        .collect();
    assert_eq!(services, ["front", "stock"], "{merged}");
}

#[test]
fn equal_ids_of_different_files_are_told_apart() {
    let files = Folder::empty();
    // A trace with the same uuids, of another process.
    let other = Maker { pid: 20, ..SHOP };
    let (run, merged) = merge(&files, &[&SHOP.trace(), &other.trace()]);
    assert_eq!(run.stderr, "27 packets of 2 files\n");
    let merged = summary(&merged);
    let tracks = merged["tracks"].as_array().unwrap();
    let mut tracks: Vec<String> = tracks
        .iter()
        .map(|track| format!("{} {}", track["process"], track["track"]))
        .collect();
    tracks.sort();
    assert_eq!(
        tracks,
        [
            "\"shop 10\" \"main 11\"",
            "\"shop 10\" \"queue\"",
            "\"shop 20\" \"main 21\"",
            "\"shop 20\" \"queue\""
        ]
    );
    assert_eq!(merged["sequences"], 2);
    assert_eq!(merged["events"], 18);
    let read = &merged["spans"][1];
    assert_eq!(
        (&read["count"], &read["total_ns"]),
        (&4.into(), &8000.into())
    );
    let kinds = merged["other_packets"].as_array().unwrap();
    let configs = kinds.iter().find(|kind| kind["name"] == "trace_config");
    assert_eq!(configs.unwrap()["count"], 1);
}

#[test]
fn two_recordings_of_one_process_share_their_tracks() {
    let files = Folder::empty();
    let (run, merged) = merge(&files, &[&recorded(), &recorded()]);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    let check = run_with_input(&["check", "--strict", "-"], &merged).fine();
    assert!(
        check.text().ends_with(", 3 sequences: 0 errors, 0 notes\n"),
        "{check:?}"
    );
    let merged = summary(&merged);
    let spans = merged["spans"].as_array().unwrap();
    assert!(spans.iter().all(|span| span["count"] == 200), "{spans:?}");
    assert_eq!(merged["counters"].as_array().unwrap().len(), 1);
}

#[test]
fn packets_come_in_the_order_of_clock_snapshots() {
    let files = Folder::empty();
    let early = Maker {
        pid: 20,
        uuid: 200,
        start_ns: 1_000,
        ..SHOP
    };
    let (_, merged) = merge(&files, &[&SHOP.trace(), &early.trace()]);
    let run = run_with_input(&["cat", "-"], &merged).fine();
    let first = run.text().find("timestamp: 1000\n").unwrap();
    let second = run.text().find("timestamp: 1000000\n").unwrap();
    assert!(first < second);
}

#[test]
fn notes_name_clocks_and_processes_that_disagree() {
    let files = Folder::empty();
    let other = Maker {
        uuid: 200,
        time_of_day_ns: 65_000_000_000,
        ..SHOP
    };
    let (run, _) = merge(&files, &[&SHOP.trace(), &other.trace()]);
    let (a, b) = (files.file("0.pftrace"), files.file("1.pftrace"));
    let (a, b) = (a.display(), b.display());
    let expected = format!(
        "note: the clocks of {a} and {b} are 60.0 s apart; their times do not compare if they \
         come from two machines, or if the machine was rebooted between them: then add \
         --machine {b}=NAME\n\
         note: {a} and {b} have different processes with the pid 10; they are shown as one\n\
         27 packets of 2 files\n"
    );
    assert_eq!(run.stderr, expected);
}

#[test]
fn standard_input_and_single_file_are_refused() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let path = file.to_str().unwrap();
    let from_input = run(&["merge", path, "-", "-o", "-"]);
    assert_eq!(from_input.status, 2);
    assert!(
        from_input
            .stderr
            .contains("the standard input does not allow")
    );
    assert_eq!(run(&["merge", path, "-o", "-"]).status, 2);
}
