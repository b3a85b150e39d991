//! Recorders that cannot start. They leave no session behind.

use std::fs;
use std::time::Duration;

use tracezero::{
    BufferConfig, FlightError, FlightRecorder, FlightRecorderBuilder, TraceConfig, Trigger,
    TriggerConfig, TriggerMode, service_state,
};

use crate::trace::Folder;

fn ring() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .record_all()
}

/// Asserts that starting fails with an error that contains `text`.
fn refused(builder: FlightRecorderBuilder, text: &str) {
    let error = builder.start().unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
    let sessions = service_state().sessions.len();
    assert_eq!(sessions, 0, "{text}");
}

#[test]
fn settings_that_make_no_recorder_are_refused_by_name() {
    let folder = Folder::alone();
    let recorder = || folder.recorder();
    let with_config = |config| {
        FlightRecorder::builder()
            .directory(folder.path())
            .config(config)
    };
    refused(recorder().max_files(0), "max_files is 0");
    refused(recorder().keep(Duration::ZERO), "keep is 0");
    refused(
        recorder().file_name("crash.pftrace"),
        "file_name \"crash.pftrace\"",
    );
    refused(recorder().ring_kib(0), "ring_kib is 0");
    refused(
        recorder().config(ring()),
        "config is set together with ring_kib",
    );
    let discarding = ring().add_buffer(BufferConfig::discard(64));
    refused(with_config(discarding), "buffers[1] is not a ring");
    let triggers = TriggerConfig::new(TriggerMode::Stop, Duration::from_secs(1))
        .add_trigger(Trigger::new("t"));
    refused(
        with_config(ring().triggers(triggers)),
        "trigger_config is not",
    );
    refused(with_config(TraceConfig::empty().record_all()), "buffer");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = Folder::alone();
    let file = folder.file("file");
    fs::write(&file, "").unwrap();
    let path = file.join("below");
    let outcome = FlightRecorder::builder().directory(&path).start();
    let Err(FlightError::Directory { path: culprit, .. }) = &outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(culprit, &path);
    let text = outcome.unwrap_err().to_string();
    assert!(
        text.contains("cannot create or read the snapshot directory") && text.contains("below: "),
        "{text}"
    );
    let made = folder.file("made/here");
    let recorder = FlightRecorder::builder().directory(&made).start().unwrap();
    assert!(made.is_dir());
    drop(recorder);
}

#[test]
fn a_recorder_takes_a_configuration_of_several_rings() {
    let folder = Folder::alone();
    let config = ring().add_buffer(BufferConfig::ring(64).named("second"));
    let recorder = FlightRecorder::builder()
        .directory(folder.path())
        .config(config);
    let recorder = recorder.start().unwrap();
    recorder.snapshot("both").save().unwrap();
    assert_eq!(folder.only_trace().configs, 1);
}
