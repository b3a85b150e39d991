//! The architecture, read from the sources: who may name whom, and where `unsafe` may stand.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs;
use std::path::{Path, PathBuf};

/// Files and folders that may contain `unsafe`, and why.
const UNSAFE_FENCE: [(&str, &str); 11] = [
    ("protozero/src/stream/", "the write cursor"),
    ("sdk/src/shm/", "memory that two parties share"),
    (
        "sdk/src/producer/chunk_source.rs",
        "promises: its ranges are valid, and fragments stand where chunks expect them",
    ),
    (
        "sdk/src/process_hooks.rs",
        "foreign functions set what is called at a fork and at the exit",
    ),
    (
        "sdk/src/clock/tsc.rs",
        "the instruction that reads the counter",
    ),
    (
        "protozero/tests/",
        "sources of ranges, and an allocator that counts",
    ),
    (
        "sdk/tests/trace_buffer_allocations.rs",
        "an allocator that counts",
    ),
    (
        "tests/no_allocation/counting.rs",
        "an allocator that counts",
    ),
    (
        "tests/judge/tests/processes/",
        "forks, and functions called at the exit",
    ),
    (
        "tests/judge/tests/tracing_allocator.rs",
        "an allocator that traces",
    ),
    (
        "tests/judge/tests/attribute/functions.rs",
        "functions that the attribute takes",
    ),
];

#[test]
fn producer_and_service_meet_only_in_what_both_may_name() {
    assert_never_named("sdk/src/producer", &["service"]);
    assert_never_named("sdk/src/service", &["producer"]);
    // What they meet in knows neither of them.
    for common in [
        "sdk/src/shm",
        "sdk/src/commit.rs",
        "sdk/src/ids.rs",
        "sdk/src/clock",
    ] {
        assert_never_named(common, &["producer", "service", "consumer", "track_event"]);
    }
}

#[test]
fn reading_traces_knows_nothing_of_recording_them() {
    let recording = [
        "producer", "service", "consumer", "runtime", "shm", "commit",
    ];
    assert_never_named("sdk/src/reader", &recording);
}

/// The code in `place` names none of these modules of the crate.
fn assert_never_named(place: &str, modules: &[&str]) {
    for (file, code) in sources(&[place]) {
        for (line_number, line) in lines(&code) {
            let words = words(line);
            let named = words
                .windows(3)
                .find(|words| words[..2] == ["crate", "::"] && modules.contains(&words[2]));
            assert!(named.is_none(), "{}:{line_number}: {line}", file.display());
            // `use crate::{..}` would hide a name from the rule above.
            let is_group = words.windows(3).any(|words| words == ["crate", "::", "{"]);
            assert!(
                !is_group,
                "{}:{line_number}: a line for each module",
                file.display()
            );
        }
    }
}

#[test]
fn unsafe_code_stands_inside_the_fence_alone() {
    let mut found = Vec::new();
    for (file, code) in sources(&["."]) {
        let count = lines(&code)
            .filter(|(_, line)| words(line).contains(&"unsafe"))
            .count();
        let name = file.to_str().unwrap().to_owned();
        if count > 0 {
            let inside = UNSAFE_FENCE
                .iter()
                .any(|(fenced, _)| name.starts_with(fenced));
            assert!(inside, "{name} contains unsafe code");
            found.push((name, count));
        }
    }
    for (fenced, _) in UNSAFE_FENCE {
        let is_needed = found.iter().any(|(name, _)| name.starts_with(fenced));
        assert!(is_needed, "{fenced} is in the fence for nothing");
    }
    let chunk_source = ("sdk/src/producer/chunk_source.rs".to_owned(), 6);
    assert!(found.contains(&chunk_source), "{found:?}");
}

#[test]
fn the_generator_forbids_unsafe_code() {
    let map = fs::read_to_string(root().join("protozero-codegen/src/lib.rs")).unwrap();
    assert!(map.contains("\n#![forbid(unsafe_code)]\n"));
}

#[test]
fn protozero_depends_on_nothing_and_knows_nothing_of_tracing() {
    let manifest = fs::read_to_string(root().join("protozero/Cargo.toml")).unwrap();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && section != "[dev-dependencies]" {
            assert!(line.is_empty() || line.starts_with('#'), "{section} {line}");
        }
    }
    let terms = [
        "trac", "perfetto", "packet", "session", "producer", "service",
    ];
    for (file, code) in sources(&["protozero/src"]) {
        for (line_number, line) in lines(&code) {
            let line = line.to_lowercase();
            let term = terms.iter().find(|term| line.contains(**term));
            assert!(term.is_none(), "{}:{line_number}: {line}", file.display());
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files in `places`, relative to the root, with their text.
fn sources(places: &[&str]) -> Vec<(PathBuf, String)> {
    let mut waiting: Vec<PathBuf> = places.iter().map(|place| root().join(place)).collect();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let skipped = ["target", ".git"];
            let entries = fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            waiting.extend(
                entries.filter(|path| !skipped.iter().any(|skipped| path.ends_with(skipped))),
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative: PathBuf = path.strip_prefix(root()).unwrap().components().collect();
            found.push((relative, fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(!found.is_empty(), "{places:?}");
    found
}

/// The lines with their numbers, without comments.
fn lines(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = code.lines();
    (1..).zip(lines.map(|line| line.split("//").next().unwrap_or_default()))
}

/// Identifiers, `::`, and other characters one by one.
fn words(line: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            _ if is_part(first) => rest.find(|letter| !is_part(letter)).unwrap_or(rest.len()),
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (word, after) = rest.split_at(len);
        if !word.trim().is_empty() {
            words.push(word);
        }
        rest = after;
    }
    words
}
