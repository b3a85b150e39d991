//! Wrong input is rejected with an error that names the wrong part, and leaves no files behind.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs;

use support::Folder;
use tracezero::{BufferConfig, DataSourceConfig, Session, TraceConfig};

#[test]
fn a_trace_file_in_a_missing_directory_is_refused() {
    let folder = Folder::empty();
    let path = folder.file("missing/app.pftrace");
    let error = Session::record_to_file(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot write the trace file {}: No such file or directory (os error 2)",
            path.display()
        )
    );
    assert_eq!(folder.entries(), [""; 0]);
}

#[test]
fn a_directory_is_no_trace_file() {
    let folder = Folder::empty();
    let error = Session::record_to_file(folder.path()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot write the trace file {}: Is a directory (os error 21)",
            folder.path().display()
        )
    );
}

#[test]
fn a_device_without_space_fails_when_the_session_finishes() {
    let session = Session::record_to_file("/dev/full").unwrap();
    let error = session.finish().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot write the trace file /dev/full: No space left on device (os error 28)"
    );
}

#[test]
fn a_target_buffer_that_does_not_exist_is_refused() {
    assert_refused(
        one_buffer().add_data_source(DataSourceConfig::new("com.example.a").target_index(1)),
        "invalid trace config: data_sources[0] (com.example.a) targets buffers[1], \
         which does not exist; the number of buffers is 1",
    );
    assert_refused(
        one_buffer()
            .add_data_source(DataSourceConfig::new("com.example.a"))
            .add_data_source(DataSourceConfig::new("com.example.b").target_name("other")),
        "invalid trace config: data_sources[1] (com.example.b) targets the buffer \"other\", \
         which does not exist; use the name of a buffer",
    );
    assert_refused(
        one_buffer()
            .add_buffer(BufferConfig::ring(64))
            .add_data_source(
                DataSourceConfig::new("com.example.a")
                    .target_name("first")
                    .target_index(1),
            ),
        "invalid trace config: data_sources[0] (com.example.a) targets buffers[0] by name, \
         but buffers[1] by index; leave one of them out",
    );
}

#[test]
fn names_of_buffers_that_occur_twice_are_refused() {
    assert_refused(
        one_buffer().add_buffer(BufferConfig::discard(64).named("first")),
        "invalid trace config: buffers[1] has the same name as buffers[0], \"first\"; rename one of them",
    );
}

#[test]
fn buffers_without_a_size_or_none_at_all_are_refused() {
    assert_refused(
        one_buffer().add_buffer(BufferConfig::ring(0)),
        "invalid trace config: buffers[1]: size_kb is 0; give at least 1",
    );
    assert_refused(
        TraceConfig::empty().record_all(),
        "invalid trace config: the configuration has data sources, but no buffers; add a buffer",
    );
}

#[test]
fn a_text_with_a_mistake_is_refused_with_its_line() {
    let error =
        TraceConfig::from_text("buffers {\n  size_kb: 64\n  fill_policy: RING\n}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3, column 3: buffers[0].fill_policy: unknown value RING: did you mean RING_BUFFER?"
    );
    assert_refused(
        TraceConfig::from_text("buffers {\n  name: \"first\"\n}").unwrap(),
        "invalid trace config: buffers[0]: size_kb is 0; give at least 1",
    );
}

fn one_buffer() -> TraceConfig {
    TraceConfig::empty().add_buffer(BufferConfig::ring(64).named("first"))
}

/// Checks that a session in memory and one with a file are rejected. A new file is not created, and
/// an existing one keeps its content.
fn assert_refused(config: TraceConfig, message: &str) {
    let folder = Folder::empty();
    let existing = folder.file("existing.pftrace");
    fs::write(&existing, "older").unwrap();
    let error = config.clone().record_in_memory().unwrap_err();
    assert_eq!(error.to_string(), message);
    for path in [&existing, &folder.file("new.pftrace")] {
        let error = config.clone().record_to_file(path).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(folder.entries(), ["existing.pftrace"]);
    assert_eq!(fs::read_to_string(existing).unwrap(), "older");
}
