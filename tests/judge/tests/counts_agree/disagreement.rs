//! Checks that a difference in any count is noticed, for each source of counts.

use std::fs;

use judge::{Counts, counts};
use support::alone;
use tracezero::{DataSource as _, InMemorySession, Report, data_source, instant};

use crate::agreement::{differences, judge_of, scratch};

struct Packets;
data_source!(Packets, "com.example.packets_of_differences");

/// Records the given numbers of events, of packets with data, and of packets that need incremental
/// state that was never defined.
fn trace(events: u64, data_packets: u64, undecodable: u64) -> (Vec<u8>, Report) {
    let session = InMemorySession::start().unwrap();
    for _ in 0..events {
        instant!("counts", "event");
    }
    Packets::trace(|cx| {
        for number in 0..data_packets + undecodable {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_seq_value(1);
                });
                if number < undecodable {
                    packet.set_sequence_flags(2);
                }
            });
        }
    });
    session.finish()
}

#[test]
fn difference_names_the_counter_and_both_counts() {
    let _guard = alone();
    let file = scratch("other.pftrace");
    let (few, few_report) = trace(10, 20, 30);
    fs::write(&file, &few).unwrap();
    let judge = judge_of(&file);
    assert_eq!(differences(&judge, &file, Some(&few_report)), [""; 0]);

    let (more, report) = trace(11, 22, 33);
    fs::write(&file, &more).unwrap();
    let found = differences(&judge, &file, Some(&report));
    fs::remove_file(&file).unwrap();
    for (who, what) in [
        ("the report", "events: 11 by the report, 10 by the judge"),
        (
            "the report",
            "data sources: 22 by the report, 20 by the judge",
        ),
        (
            "the report",
            "undecodable packets: 33 by the report, 30 by the judge",
        ),
        ("summary", "events: 11 by summary, 10 by the judge"),
        ("summary", "data sources: 22 by summary, 20 by the judge"),
        (
            "summary",
            "undecodable packets: 33 by summary, 30 by the judge",
        ),
        ("check", "events: 11 by check, 10 by the judge"),
        ("view", "events: 11 by view, 10 by the judge"),
        ("view", "undecodable packets: 33 by view, 30 by the judge"),
    ] {
        let of_who = found.iter().filter(|line| line.contains(who));
        assert_eq!(
            of_who.filter(|line| line.ends_with(what)).count(),
            1,
            "{what}: {found:#?}"
        );
    }
    // Two of the sources count packets, and three count bytes.
    let lines = |what| found.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((lines("packets:"), lines("bytes:")), (2, 3), "{found:#?}");
    assert_eq!(found.len(), 9 + 2 + 3, "{found:#?}");
}

#[test]
fn printed_report_has_the_counts_of_the_report() {
    let _guard = alone();
    for (events, data_packets, undecodable) in [(0, 0, 0), (1, 1, 1), (5, 0, 2), (0, 7, 0)] {
        let (trace, mut report) = trace(events, data_packets, undecodable);
        let expected = Counts::from(&report);
        let judge = counts(&trace);
        assert_eq!(expected.undecodable, judge.undecodable);
        let file = "folder/app.pftrace".as_ref();
        let printed = |report: &Report| {
            let text = format!("60 words\ntrace: {report}\n3 MiB of buffers");
            Counts::of_printed_report(&text, file)
        };
        assert_eq!(printed(&report), Some(expected));
        report.losses.overwritten = 3;
        report.path = Some("app.pftrace".into());
        assert_eq!(printed(&report), Some(expected));
        report.path = Some("of another session.pftrace".into());
        assert_eq!(printed(&report), None);
    }
    assert_eq!(
        Counts::of_printed_report("12 of 30 bytes, lost", "a".as_ref()),
        None
    );
}
