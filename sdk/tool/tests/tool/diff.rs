//! `tracezero diff`.

use protozero::HeapBuffered;
use serde_json::Value;
use support::Folder;
use tracezero::protos::{Trace, track_event};

use crate::process::{Run, run};
use crate::traces::slices;

/// What a made-up program does in each of its 50 rounds: calls of six functions, and of `read` in one
/// of them.
#[derive(Clone, Copy)]
struct Program {
    /// The length of each function, as a multiple of the usual one.
    all: f64,
    parse: f64,
    /// That of `read` inside of `load`. Inside of `save` it is as usual.
    read_in_load: f64,
    renders: usize,
    has_cache: bool,
}

const USUAL: Program = Program {
    all: 1.0,
    parse: 1.0,
    read_in_load: 1.0,
    renders: 1,
    has_cache: false,
};

/// Writes events in the order of time, with durations that vary by up to 10 %.
struct Writer<'t> {
    trace: Trace<'t>,
    now_ns: u64,
    random: u64,
    all: f64,
}

impl Writer<'_> {
    fn event(&mut self, kind: track_event::Type, name: &str) {
        let now_ns = self.now_ns;
        self.trace.add_packet(|packet| {
            packet.set_timestamp(now_ns);
            packet.set_trusted_packet_sequence_id(2);
            packet.track_event(|event| {
                event.set_type(kind).set_track_uuid(1).set_name(name);
            });
        });
    }

    /// Calls a function that takes this time beside the time of `inside`.
    fn call(&mut self, name: &str, self_ns: f64, inside: impl FnOnce(&mut Self)) {
        self.event(track_event::Type::SLICE_BEGIN, name);
        inside(self);
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let noise = 0.9 + 0.2 * (self.random >> 40) as f64 / (1_u64 << 24) as f64;
        self.now_ns += (self_ns * self.all * noise) as u64;
        self.event(track_event::Type::SLICE_END, "");
    }
}

impl Program {
    fn trace(self, seed: u64) -> Vec<u8> {
        let mut buffer = HeapBuffered::<Trace<'_>>::new();
        let mut writer = Writer {
            trace: buffer.message(),
            now_ns: 1_000_000,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            all: self.all,
        };
        writer.trace.add_packet(|packet| {
            packet.set_trusted_packet_sequence_id(2);
            packet.track_descriptor(|track| {
                track.set_uuid(1).thread(|thread| {
                    thread.set_pid(1).set_tid(1).set_thread_name("main");
                });
            });
        });
        let leaf = |_: &mut Writer<'_>| {};
        for _ in 0..50 {
            writer.call("accept", 2e4, leaf);
            writer.call("parse", 3e4 * self.parse, leaf);
            writer.call("load", 1e4, |writer| {
                writer.call("read", 4e4 * self.read_in_load, leaf);
            });
            writer.call("save", 1e4, |writer| writer.call("read", 4e4, leaf));
            for _ in 0..self.renders {
                writer.call("render", 5e4, leaf);
            }
            writer.call(
                if self.has_cache { "cached" } else { "computed" },
                2e4,
                leaf,
            );
        }
        drop(writer);
        buffer.to_vec()
    }
}

/// Compares four traces of each side. `OUT` in the arguments is the folder of the traces.
fn diff(before: Program, after: Program, args: &[&str]) -> (Run, Folder) {
    let files = Folder::empty();
    let write = |side: &str, program: Program, first_seed: u64| {
        (0..4)
            .map(|number| {
                let trace = program.trace(first_seed + number);
                let file = files.write(format!("{side}-{number}.pftrace"), trace);
                file.to_str().unwrap().to_owned()
            })
            .collect::<Vec<_>>()
    };
    let folder = files.path().to_str().unwrap();
    let mut all = vec!["diff".to_owned()];
    all.extend(args.iter().map(|arg| arg.replace("OUT", folder)));
    all.extend(write("before", before, 1));
    all.push("--with".to_owned());
    all.extend(write("after", after, 100));
    (run(&all), files)
}

/// Returns verdict and name of each row.
fn verdicts(run: &Run) -> Vec<(String, String)> {
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let rows = report["names"].as_array().unwrap().iter();
    rows.map(|row| [&row["verdict"], &row["name"]].map(|it| it.as_str().unwrap().to_owned()))
        .map(|[verdict, name]| (verdict, name))
        .collect()
}

#[test]
fn a_slower_span_is_named_and_fails_the_command() {
    let slower = Program {
        parse: 1.2,
        ..USUAL
    };
    let (run, _files) = diff(USUAL, slower, &[]);
    assert_eq!((run.status, run.stderr.as_str()), (1, ""), "{run:?}");
    let text = run.text();
    assert!(
        text.starts_with("before     4 traces, 1600 spans, "),
        "{text}"
    );
    assert!(
        text.contains("result     1 name and 1 stack slower"),
        "{text}"
    );
    let row = text
        .lines()
        .find(|line| line.starts_with("  slower"))
        .unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        cells[..5],
        ["slower", "thread", "parse", "200", "200"],
        "{text}"
    );
    let change: f64 = cells[9].parse().unwrap();
    assert!((change - 20.0).abs() < 3.0, "{text}");
}

#[test]
fn equal_sides_are_fine() {
    let (run, _files) = diff(USUAL, USUAL, &["--threshold", "5%"]);
    let run = run.fine();
    assert!(
        run.text()
            .contains("result     nothing became slower or faster\n"),
        "{run:?}"
    );
    assert!(!run.text().contains("spans, by name"), "{run:?}");
}

#[test]
fn a_faster_span_is_no_failure() {
    let faster = Program {
        parse: 0.8,
        ..USUAL
    };
    let (run, _files) = diff(USUAL, faster, &["--json", "--threshold", "2"]);
    let run = run.fine();
    assert_eq!(verdicts(&run)[0], ("faster".to_owned(), "parse".to_owned()));
}

#[test]
fn what_all_names_share_is_told_apart() {
    let slower = Program { all: 1.1, ..USUAL };
    let (run, _files) = diff(USUAL, slower, &["--threshold", "3%"]);
    assert_eq!(run.status, 1, "{run:?}");
    let text = run.text();
    assert!(
        text.contains("result     all names together slower\n"),
        "{text}"
    );
    assert!(
        text.contains("common     all names together +10."),
        "{text}"
    );
    let (run, _files) = diff(USUAL, slower, &["--absolute", "--json"]);
    let verdicts = verdicts(&run);
    assert!(
        verdicts.iter().filter(|(it, _)| it == "slower").count() >= 6,
        "{verdicts:?}"
    );
}

#[test]
fn stacks_tell_where_a_name_became_slower() {
    let slower = Program {
        read_in_load: 1.3,
        ..USUAL
    };
    let (run, _files) = diff(USUAL, slower, &["--threshold", "3%"]);
    assert_eq!(run.status, 1, "{run:?}");
    let (_, stacks) = run.text().split_once("self time, by stack\n").unwrap();
    let slower: Vec<_> = stacks
        .lines()
        .filter(|line| line.contains("slower"))
        .collect();
    assert_eq!(slower.len(), 1, "{stacks}");
    assert!(slower[0].contains("load > read"), "{stacks}");
}

#[test]
fn new_and_lost_names_and_numbers_of_calls_are_listed() {
    let after = Program {
        renders: 3,
        has_cache: true,
        ..USUAL
    };
    let (run, _files) = diff(USUAL, after, &["--threshold", "5%"]);
    let run = run.fine();
    let (_, calls) = run.text().split_once("numbers of calls\n").unwrap();
    let rows = calls.lines().skip(1).map(|line| {
        let cells: Vec<_> = line.split_whitespace().collect();
        cells.join(" ")
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(
        rows,
        [
            "new thread cached 0 200 0 4",
            "gone thread computed 200 0 4 0",
            "more calls thread render 200 600 4 4 +200 %",
        ]
    );
}

#[test]
fn two_traces_raise_an_alarm_only_beyond_a_threshold() {
    let files = Folder::empty();
    let slower = Program {
        parse: 2.0,
        ..USUAL
    };
    let before = files.write("before", USUAL.trace(1));
    let after = files.write("after", slower.trace(2));
    let paths = [&before, &after].map(|path| path.to_str().unwrap());
    let careful = run(&[&["diff"], &paths[..]].concat()).fine();
    assert!(careful.text().contains("perhaps slower"), "{careful:?}");
    assert!(
        careful.text().contains("give more traces, or --threshold"),
        "{careful:?}"
    );
    let asked = run(&[&["diff", "--threshold", "20%"], &paths[..]].concat());
    assert_eq!(asked.status, 1, "{asked:?}");
    assert!(
        asked.text().contains("1 name and 1 stack slower"),
        "{asked:?}"
    );
}

#[test]
fn damage_in_a_trace_is_told() {
    let files = Folder::empty();
    let whole = USUAL.trace(1);
    let before = files.write("before", &whole);
    let after = files.write("after", &whole[..whole.len() - 5]);
    let paths = [&before, &after].map(|path| path.to_str().unwrap());
    let run = run(&[&["diff"], &paths[..]].concat());
    assert_eq!(run.status, 1, "{run:?}");
    assert!(
        run.stderr.contains("the trace ends inside a packet"),
        "{run:?}"
    );
    let (head, losses) = run.text().split_once("\nlosses\n").unwrap();
    assert!(
        head.contains("lost       spans may be missing, see below"),
        "{head}"
    );
    let row: Vec<_> = losses.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["after", paths[1], "0", "0", "1"]);
}

#[test]
fn programs_get_all_rows_as_json() {
    let slower = Program {
        parse: 1.2,
        ..USUAL
    };
    let (run, files) = diff(USUAL, slower, &["--json", "--top", "0"]);
    assert_eq!(run.status, 1, "{run:?}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(report["slower"], true);
    assert_eq!(report["has_losses"], false);
    assert_eq!(report["names"].as_array().unwrap().len(), 7);
    assert_eq!(report["stacks"].as_array().unwrap().len(), 8);
    let row = &report["names"][0];
    assert_eq!(
        (&row["name"], &row["verdict"]),
        (&"parse".into(), &"slower".into())
    );
    let number = |key: &str| row[key].as_f64().unwrap();
    assert!(number("low_percent") < number("change_percent"), "{row}");
    assert!(number("change_percent") < number("high_percent"), "{row}");
    assert!(number("p_slower") < 0.001, "{row}");
    assert_eq!(
        (&row["before"]["calls"], &row["after"]["traces"]),
        (&200.into(), &4.into())
    );
    let first = files.path().join("before-0.pftrace");
    assert_eq!(report["before"][0]["file"], first.to_str().unwrap());
    let reads = report["stacks"].as_array().unwrap().iter();
    let reads = reads.filter(|row| row["stack"][1] == "read").count();
    assert_eq!(reads, 2);
}

#[test]
fn a_slower_stack_is_red_and_the_others_have_no_colour() {
    let slower = Program {
        parse: 1.2,
        ..USUAL
    };
    let args = ["--svg", "OUT/diff.svg", "--folded", "OUT/diff.folded"];
    let (run, files) = diff(USUAL, slower, &args);
    assert_eq!(run.status, 1, "{run:?}");
    let svg = String::from_utf8(files.read("diff.svg")).unwrap();
    let colour = |name: &str| {
        let (_, frame) = svg.split_once(&format!("<title>{name} (")).unwrap();
        let (_, fill) = frame.split_once("fill=\"").unwrap();
        fill.split_once('"').unwrap().0
    };
    assert_eq!(colour("parse"), "rgb(255,100,100)");
    assert_eq!(colour("render"), "rgb(250,250,250)");
    let folded = String::from_utf8(files.read("diff.folded")).unwrap();
    let lines: Vec<_> = folded.lines().collect();
    assert_eq!(lines.len(), 8, "{folded}");
    let read = lines
        .iter()
        .find(|line| line.starts_with("load;read "))
        .unwrap();
    let counts: Vec<u64> = read
        .split(' ')
        .skip(1)
        .map(|it| it.parse().unwrap())
        .collect();
    // 50 calls of 40 µs per trace.
    assert!(
        counts.iter().all(|ns| ns.abs_diff(2_000_000) < 100_000),
        "{folded}"
    );
}

#[test]
fn the_picture_can_go_to_the_standard_output() {
    let (run, _files) = diff(USUAL, USUAL, &["--svg", "-", "--threshold", "5%"]);
    let run = run.fine();
    assert!(run.text().starts_with("<?xml"), "{run:?}");
    assert!(run.text().trim_end().ends_with("</svg>"), "{run:?}");
}

#[test]
fn wrong_calls_say_what_to_do() {
    let files = Folder::empty();
    let trace = files.write("a", slices(&[(1, "a")]));
    let other = files.write("b", slices(&[(1, "b")]));
    let [trace, other] = [&trace, &other].map(|path| path.to_str().unwrap());
    for (args, message) in [
        (
            &["diff", trace, trace, trace][..],
            "3 traces given, but not which of them are after",
        ),
        (&["diff", trace], "give those behind --with"),
        (
            &["diff", trace, trace, "--threshold", "much"],
            "give a percentage, such as 1%",
        ),
        (
            &["diff", trace, other],
            "no span is on both sides, so nothing was compared",
        ),
        (&["diff", trace, "/nowhere"], "/nowhere cannot be opened"),
        (&["diff", trace, trace, "--svg", trace], "is an input, too"),
        (
            &["diff", trace, trace, "--svg", "-"],
            "draw those on other tracks with --all-tracks",
        ),
    ] {
        let run = run(args);
        assert_eq!(run.status, 2, "{run:?}");
        assert!(run.stderr.contains(message), "{run:?}");
    }
    run(&["diff", trace, trace, "--svg", "-", "--all-tracks"]).fine();
}
