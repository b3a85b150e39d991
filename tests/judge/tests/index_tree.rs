//! Runs the example `index_tree` as a user does, and checks its output, its trace, and its errors.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use judge::{EventKind, ExtraSchema, Value, Verdict, judge};
use support::Folder;

/// The files of a small tree, with their content.
const TREE: [(&str, &[u8]); 7] = [
    ("a.txt", b"one two two three three three\n"),
    ("deep/er/b.txt", "three Stra\u{df}en_1\nfour".as_bytes()),
    ("empty.txt", b""),
    ("binary.bin", b"text, then \0"),
    ("latin1.txt", b"stra\xdfe"),
    (".git/HEAD", b"skipped"),
    ("target/debug/out.txt", b"skipped"),
];

#[test]
fn a_tree_is_indexed_and_the_trace_says_how() {
    let place = Place::new();
    let tree = place.tree();
    // The statistics of this file take several KiB, more than a chunk holds.
    let words: Vec<String> = (0..1000).map(|number| format!("{number:0>30}")).collect();
    fs::write(tree.join("large.txt"), words.join(" ")).unwrap();
    let output = place.run(&[
        "--threads",
        "2",
        "--top",
        "3",
        "--output",
        "out.pftrace",
        "tree",
    ]);

    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    let says = |text: &str| assert!(printed.contains(text), "{text:?} is not in\n{printed}");
    says("tree: 4 files, ");
    says(" 1009 words, 1005 of them distinct, in ");
    says("skipped: 2 binary files\n");
    says("           4         2  three\n");
    says(" 0 lost: out.pftrace\n");
    assert_eq!(
        printed.matches(".txt\n").count(),
        3,
        "the three slowest files\n{printed}"
    );

    let verdict = verdict(&place.0.file("out.pftrace"));
    let indexed = ["a.txt", "deep/er/b.txt", "empty.txt", "large.txt"];
    let mut all_files = BTreeSet::from(["binary.bin", "latin1.txt"].map(str::to_owned));
    all_files.extend(indexed.map(str::to_owned));
    let paths = |name| -> BTreeSet<String> {
        let events = verdict.events_named(name);
        events.map(|event| text(&event.args["path"])).collect()
    };
    assert_eq!(paths("index_file"), all_files);
    assert_eq!(
        paths("skip_binary"),
        ["binary.bin", "latin1.txt"].map(str::to_owned).into()
    );
    assert_eq!(
        paths("list_directory"),
        [".", "deep", "deep/er"].map(str::to_owned).into()
    );
    for (phase, count) in [
        ("read", 6),
        ("tokenize", 4),
        ("record_stats", 4),
        ("add_to_index", 4),
        ("merge", 2),
        ("index_tree", 1),
    ] {
        assert_eq!(verdict.events_named(phase).count(), count, "{phase}");
    }
    for event in verdict.events_named("index_file") {
        let thread = event.thread_name.as_deref().unwrap();
        assert!(["worker-1", "worker-2"].contains(&thread), "{thread}");
    }
    assert_eq!(last_value(&verdict, "queued_files"), 0);
    let text_bytes = TREE[..3]
        .iter()
        .map(|(_, content)| content.len())
        .sum::<usize>();
    assert_eq!(
        highest_value(&verdict, "read_bytes"),
        (text_bytes + words.join(" ").len()) as i64
    );

    let stats: BTreeMap<String, &Value> = verdict
        .custom
        .iter()
        .map(|custom| custom.fields.get("file_stats").unwrap())
        .map(|stats| (text(stats.get("path").unwrap()), stats))
        .collect();
    assert!(stats.keys().eq(indexed), "{:?}", stats.keys());
    let number = |file: &str, field: &str| stats[file].get(field).and_then(Value::as_u64).unwrap();
    assert_eq!(number("a.txt", "words"), 6);
    assert_eq!(number("a.txt", "distinct_words"), 3);
    assert_eq!(number("a.txt", "lines"), 1);
    assert_eq!(
        text(stats["a.txt"].get("top_words.0.word").unwrap()),
        "three"
    );
    assert_eq!(number("a.txt", "top_words.0.count"), 3);
    assert_eq!(number("a.txt", "words_by_length.4"), 3);
    assert_eq!(
        text(stats["deep/er/b.txt"].get("top_words.0.word").unwrap()),
        "Stra\u{df}en_1"
    );
    assert_eq!(
        number("deep/er/b.txt", "words_by_length.8"),
        1,
        "letters, not bytes"
    );
    assert_eq!(number("empty.txt", "bytes"), 0);
    assert_eq!(number("large.txt", "distinct_words"), 1000);
    assert_eq!(number("large.txt", "words_by_length.29"), 1000);
    assert_eq!(
        text(stats["large.txt"].get("top_words.255.word").unwrap()),
        words[255]
    );
}

#[test]
fn a_missing_directory_is_an_error_and_leaves_no_trace() {
    let place = Place::new();
    let output = place.run(&["--output", "out.pftrace", "missing"]);
    assert_fails(
        &output,
        "error: cannot read the directory missing: No such file or directory",
    );
    assert!(!place.0.file("out.pftrace").exists());
}

#[test]
fn a_file_where_a_directory_is_expected_is_an_error() {
    let place = Place::new();
    place.tree();
    let output = place.run(&["tree/a.txt"]);
    assert_fails(
        &output,
        "error: cannot read the directory tree/a.txt: Not a directory",
    );
    assert!(!place.0.file("index_tree.pftrace").exists());
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    place.tree();
    let output = place.run(&["--output", "missing/out.pftrace", "tree"]);
    assert_fails(
        &output,
        "error: cannot write the trace file missing/out.pftrace: No such file",
    );
    assert!(!place.0.file("missing").exists());

    let output = place.run(&["--output", "tree", "tree"]);
    assert_fails(
        &output,
        "error: cannot write the trace file tree: Is a directory",
    );

    let output = place.run(&["--output", "/dev/full", "tree"]);
    assert_fails(
        &output,
        "error: cannot write the trace file /dev/full: No space left",
    );
    assert!(Path::new("/dev/full").exists());
}

#[test]
fn a_thread_count_of_zero_is_a_usage_error() {
    let place = Place::new();
    let output = place.run(&["--threads", "0", "tree"]);
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("--threads <N>"), "{printed}");
}

/// A folder for one test, in which the example runs.
struct Place(Folder);

impl Place {
    fn new() -> Self {
        Self(Folder::empty())
    }

    /// Creates the small tree.
    fn tree(&self) -> PathBuf {
        let tree = self.0.file("tree");
        for (name, content) in TREE {
            let file = tree.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        tree
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&*EXAMPLE);
        command
            .args(args)
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }
}

/// The path of the example's executable. Builds it, since Cargo may not have built it for this test
/// run.
static EXAMPLE: LazyLock<PathBuf> = LazyLock::new(|| {
    // The path of this test is target/PROFILE/deps/TEST.
    let test = std::env::current_exe().unwrap();
    let profile_dir = test.parent().and_then(Path::parent).unwrap();
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--offline",
            "--workspace",
            "--example",
            "index_tree",
        ])
        .args(["--profile", profile, "--target-dir"])
        .arg(profile_dir.parent().unwrap())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .status()
        .unwrap();
    assert!(status.success(), "the example does not build");
    profile_dir.join("examples/index_tree")
});

fn verdict(trace: &Path) -> Verdict {
    let extra = ExtraSchema::new().extensions("../../examples/protos/index_tree.proto");
    judge(&fs::read(trace).unwrap(), &extra).unwrap_or_else(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

fn assert_fails(output: &Output, message: &str) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with(message), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

fn text(value: &Value) -> String {
    let Value::Text(text) = value else {
        panic!("{value:?} is no text")
    };
    text.clone()
}

fn values<'v>(verdict: &'v Verdict, counter: &'v str) -> impl Iterator<Item = (u64, i64)> + 'v {
    let events = verdict.events.iter();
    let events = events.filter(|event| event.kind == EventKind::Counter);
    let events = events.filter(move |event| event.track_name.as_deref() == Some(counter));
    events.map(|event| {
        let value = event.counter.as_ref().and_then(Value::as_i64);
        (event.timestamp_ns, value.unwrap())
    })
}

fn last_value(verdict: &Verdict, counter: &str) -> i64 {
    values(verdict, counter).max().unwrap().1
}

fn highest_value(verdict: &Verdict, counter: &str) -> i64 {
    values(verdict, counter)
        .map(|(_, value)| value)
        .max()
        .unwrap()
}
