//! Checks rules of the architecture in the sources: which packages and modules may name which, and
//! where `unsafe` may be.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders that may contain `unsafe`, each with the reason.
const UNSAFE_FENCE: [(&str, &str); 17] = [
    ("protozero/src/stream/", "the write cursor"),
    ("sdk/core/src/shm/", "memory that two parties share"),
    (
        "sdk/core/src/file_memory.rs",
        "maps files, and makes atomics of their bytes",
    ),
    (
        "sdk/core/src/fork_guard.rs",
        "replaces shared mappings and closes connections in a forked child",
    ),
    (
        "sdk/core/src/inherited_descriptor.rs",
        "owns a descriptor that is known by its number alone",
    ),
    (
        "sdk/producer/src/chunk_stream.rs",
        "promises: its ranges are valid, and fragments stand where chunks expect them",
    ),
    (
        "sdk/producer/src/instance.rs",
        "what a thread keeps for a data source has the type that the data source says",
    ),
    (
        "sdk/producer/src/own_data_source.rs",
        "a promise of that type, for data sources of the SDK",
    ),
    (
        "sdk/core/src/process_hooks.rs",
        "foreign functions set what is called at a fork, at the exit and for a signal",
    ),
    (
        "sdk/core/src/clock/tsc.rs",
        "the instruction that reads the counter",
    ),
    (
        "protozero/tests/",
        "sources of ranges, and an allocator that counts",
    ),
    (
        "tests/support/src/allocations.rs",
        "an allocator that counts",
    ),
    (
        "tests/judge/tests/processes/",
        "forks, functions called at the exit, and signal handlers",
    ),
    ("tests/judge/tests/record/program.rs", "a fork"),
    (
        "tests/judge/tests/system/programs.rs",
        "a fork in the middle of a packet",
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

/// The packages of the SDK, each with the packages of this repository that it depends on.
const PACKAGES: [(&str, &[&str]); 18] = [
    ("sdk/schema", &[]),
    ("sdk/events-core", &[]),
    ("sdk/events", &["tracezero-events-core"]),
    ("sdk/core", &["protozero"]),
    ("sdk/kernel", &["protozero"]),
    ("sdk/config", &["protozero", "tracezero-core"]),
    (
        "sdk/service",
        &[
            "protozero",
            "tracezero-config",
            "tracezero-core",
            "tracezero-protovm",
        ],
    ),
    ("sdk/crash", &["tracezero-core", "tracezero-service"]),
    ("sdk/ipc", &["protozero", "tracezero-core"]),
    (
        "sdk/client",
        &["tracezero-core", "tracezero-ipc", "tracezero-producer"],
    ),
    (
        "sdk/consumer",
        &["protozero", "tracezero-core", "tracezero-ipc"],
    ),
    (
        "sdk/host",
        &[
            "protozero",
            "tracezero-core",
            "tracezero-ipc",
            "tracezero-service",
        ],
    ),
    ("sdk/producer", &["protozero", "tracezero-core"]),
    ("sdk/protovm", &["protozero"]),
    (
        "sdk/track-event",
        &[
            "protozero",
            "tracezero-client",
            "tracezero-core",
            "tracezero-events-core",
            "tracezero-producer",
        ],
    ),
    (
        "sdk/probes",
        &["protozero", "tracezero", "tracezero-kernel"],
    ),
    (
        "sdk/lake",
        &["protozero", "tracezero-core", "tracezero-reader"],
    ),
    (
        "sdk/reader",
        &[
            "protozero",
            "tracezero-core",
            "tracezero-kernel",
            "tracezero-protovm",
        ],
    ),
];

#[test]
fn packages_depend_on_those_below_them_alone() {
    for (package, below) in PACKAGES {
        let ours = dependencies(package)
            .into_iter()
            .filter(|name| name.starts_with("tracezero") || name.starts_with("protozero"));
        assert_eq!(ours.collect::<Vec<_>>(), below, "{package}");
    }
}

#[test]
fn support_is_for_tests_alone_and_names_nothing_foreign() {
    let ours = [
        "protozero",
        "tracezero-core",
        "tracezero-kernel",
        "tracezero-service",
    ];
    assert_eq!(dependencies("tests/support"), ours);
    let others = [
        "protozero",
        "protozero-codegen",
        "sdk",
        "sdk/macros",
        "sdk/tool",
    ];
    for package in PACKAGES.map(|(package, _)| package).iter().chain(&others) {
        let names = dependencies(package);
        assert!(!names.contains(&"support".to_owned()), "{package}");
    }
}

#[test]
fn reading_traces_knows_nothing_of_recording_them() {
    for (file, code) in sources(&["sdk/reader/src"]) {
        for path in words(&without_comments(&code)).windows(3) {
            if path[..2] == ["tracezero_core", "::"] {
                let place = file.display();
                assert!(
                    ["attributes", "counter_value", "protos"].contains(&path[2]),
                    "{place}: {path:?}"
                );
            }
        }
    }
}

#[test]
fn no_module_names_one_that_leads_back_to_it() {
    for package in [
        "protozero",
        "protozero-codegen",
        "sdk",
        "sdk/client",
        "sdk/config",
        "sdk/core",
        "sdk/crash",
        "sdk/events",
        "sdk/events-core",
        "sdk/host",
        "sdk/ipc",
        "sdk/kernel",
        "sdk/lake",
        "sdk/probes",
        "sdk/producer",
        "sdk/protovm",
        "sdk/reader",
        "sdk/service",
        "sdk/track-event",
        "sdk/tool",
        "tests/judge",
        "tests/support",
    ] {
        let mut named = named_by_modules(&format!("{package}/src"));
        // Removes modules that name none of the modules that are left; they are in no cycle.
        while !named.is_empty() {
            let left: BTreeSet<String> = named.keys().cloned().collect();
            let before = named.len();
            named.retain(|_, names| names.iter().any(|name| left.contains(name)));
            if named.len() == before {
                // Removes modules that none of the modules that are left names; they are in no
                // cycle, either.
                let names: BTreeSet<String> = named.values().flatten().cloned().collect();
                named.retain(|module, _| names.contains(module));
                assert!(named.len() < before, "{package}: a circle in {named:?}");
            }
        }
    }
}

/// Returns, for each module, the other modules of its crate that it names outside of tests. A name
/// that the root of the crate re-exports counts as its module.
fn named_by_modules(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let sources = sources(&[folder]);
    let root = sources
        .iter()
        .find(|(file, _)| file.ends_with("src/lib.rs"));
    let mut re_exported = root.map(|(_, code)| re_exports(code)).unwrap_or_default();
    // A module and an item of another module may have the same name, for example a function or
    // macro.
    re_exported.retain(|name, _| {
        let file = format!("{folder}/{name}.rs");
        let is_in_module = |path: &Path| path.starts_with(format!("{folder}/{name}"));
        !sources
            .iter()
            .any(|(path, _)| *path == Path::new(&file) || is_in_module(path))
    });
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, code) in &sources {
        let path = file.strip_prefix(folder).unwrap().to_str().unwrap();
        let is_test = ["tests", "testing.rs", "scenarios", "loom_models"];
        let module = path.split(['/', '.']).next().unwrap();
        if is_test
            .iter()
            .any(|part| path[module.len()..].contains(part))
            || module == "scenarios"
            || path == "lib.rs"
        {
            continue;
        }
        // The number of `super` that lead to the root.
        let depth = path.trim_end_matches("/mod.rs").split('/').count();
        let product = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let names = named.entry(module.to_owned()).or_default();
        for name in named_from_root(&words(&without_comments(product)), depth) {
            let name = re_exported.get(name).map_or(name, String::as_str);
            if name != module {
                names.insert(name.to_owned());
            }
        }
    }
    named
}

/// Returns the names that follow `crate::`, or `super::` repeated `depth` times, also in groups.
fn named_from_root<'w>(words: &[&'w str], depth: usize) -> Vec<&'w str> {
    let mut named = Vec::new();
    for at in 0..words.len() {
        // `$crate` in a macro stands for paths of users, from outside of the crate.
        if at > 0 && ["$", "::"].contains(&words[at - 1]) {
            continue;
        }
        let supers = words[at..]
            .chunks(2)
            .take_while(|pair| **pair == ["super", "::"])
            .count();
        let below = match &words[at..] {
            ["crate", "::", below @ ..] => below,
            _ if supers == depth => &words[at + 2 * depth..],
            _ => continue,
        };
        match below {
            ["{", ..] => named.extend(paths(below).iter().map(|path| path[0])),
            [name, ..] => named.push(name),
            [] => {}
        }
    }
    named
}

/// Returns the names that a crate's root re-exports, each with its module.
fn re_exports(root: &str) -> BTreeMap<String, String> {
    let text = without_comments(root);
    let mut found = BTreeMap::new();
    for import in text.split(';') {
        let words = words(import);
        let Some(at) = words.iter().position(|word| *word == "use") else {
            continue;
        };
        for path in paths(&words[at + 1..]) {
            let path = path.strip_prefix(&["crate"]).unwrap_or(&path);
            if let [module, .., name] = path {
                found.insert((*name).to_owned(), (*module).to_owned());
            }
        }
    }
    found
}

/// Returns the paths of a tree of imports.
fn paths<'w>(tree: &[&'w str]) -> Vec<Vec<&'w str>> {
    let Some(open) = tree.iter().position(|word| *word == "{") else {
        let path = tree.iter().filter(|word| **word != "::").copied();
        return vec![path.collect()];
    };
    let prefix = tree[..open].iter().filter(|word| **word != "::");
    let (mut depth, mut start, mut found) = (0, open + 1, Vec::new());
    for at in open + 1..tree.len() {
        if depth == 0 && [",", "}"].contains(&tree[at]) {
            if start < at {
                let inner = paths(&tree[start..at]);
                found.extend(
                    inner
                        .into_iter()
                        .map(|path| prefix.clone().copied().chain(path).collect()),
                );
            }
            start = at + 1;
        }
        match tree[at] {
            "{" => depth += 1,
            "}" if depth == 0 => break,
            "}" => depth -= 1,
            _ => {}
        }
    }
    found
}

fn without_comments(code: &str) -> String {
    lines(code).map(|(_, line)| format!("{line} ")).collect()
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
    let chunk_stream = ("sdk/producer/src/chunk_stream.rs".to_owned(), 7);
    assert!(found.contains(&chunk_stream), "{found:?}");
}

#[test]
fn the_generator_forbids_unsafe_code() {
    let map = fs::read_to_string(root().join("protozero-codegen/src/lib.rs")).unwrap();
    assert!(map.contains("\n#![forbid(unsafe_code)]\n"));
}

#[test]
fn protozero_depends_on_nothing_and_knows_nothing_of_tracing() {
    assert_eq!(dependencies("protozero"), Vec::<String>::new());
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

/// Returns the dependencies in the manifest of a package, without those for tests.
fn dependencies(package: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
    let mut names = Vec::new();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]")
            && section != "[dev-dependencies]"
            && !line.is_empty()
            && !line.starts_with('#')
        {
            let name = line.split([' ', '.']).next().unwrap();
            names.push(name.to_owned());
        }
    }
    names
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all Rust files in `places`, relative to the root, with their text.
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

/// Returns the lines with their numbers, without comments.
fn lines(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = code.lines();
    (1..).zip(lines.map(|line| line.split("//").next().unwrap_or_default()))
}

/// Splits a line into identifiers, `::`, and other characters one by one.
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
