//! The packets and callbacks of data sources in captures.

use std::panic;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use protozero::HeapBuffered;
use tracezero::protos::{self, TestEventDecoder, TracePacket};
use tracezero::testing::{CaptureHandle, Trace, capture, capture_with};
use tracezero::{
    BufferConfig, DataSource, DataSourceConfig, InMemorySession, Setup, Starting, Stopping,
    TraceConfig, Trigger, TriggerConfig, TriggerMode, data_source,
};

struct Beats;
data_source!(Beats, "com.example.beats");

fn beat(text: &str) {
    Beats::trace(|cx| {
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.for_testing(|event| {
                event.set_str(text);
            });
        });
    });
}

/// Returns the texts in the packets of data sources.
fn texts(trace: &Trace) -> Vec<String> {
    trace.assert_no_loss().assert_well_formed();
    let packets = trace.packets_with(TracePacket::FOR_TESTING_FIELD_NUMBER);
    let text = |packet| {
        TestEventDecoder::new(packet)
            .str()
            .unwrap()
            .unwrap()
            .to_owned()
    };
    packets.into_iter().map(text).collect()
}

#[test]
fn packets_of_a_data_source_are_captured() {
    thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                let capture = capture();
                beat(&format!("first of {number}"));
                thread::spawn(|| beat("of nobody")).join().unwrap();
                let text = format!("second of {number}");
                capture.spawn(move || beat(&text)).join().unwrap();
                let mut texts = texts(&capture.finish());
                texts.sort();
                assert_eq!(
                    texts,
                    [format!("first of {number}"), format!("second of {number}")]
                );
            });
        }
    });
}

/// A data source that notes its callbacks, and the capture of each.
struct Probe;

static CALLS: Mutex<Vec<(Option<CaptureHandle>, &str)>> = Mutex::new(Vec::new());

impl Probe {
    fn note(call: &'static str) {
        CALLS.lock().unwrap().push((CaptureHandle::current(), call));
    }

    fn say(text: &str) {
        Self::trace(|cx| {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_str(text);
                });
            });
        });
    }

    fn calls_in(capture: CaptureHandle) -> Vec<&'static str> {
        let calls = CALLS.lock().unwrap();
        let of_capture = calls.iter().filter(|(handle, _)| *handle == Some(capture));
        of_capture.map(|(_, call)| *call).collect()
    }
}

impl DataSource for Probe {
    const NAME: &'static str = "com.example.probe";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(Probe);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self::note("setup");
        Self
    }

    fn on_start(&self, _: Starting) {
        Self::note("start");
        Self::say("starts");
    }

    fn on_stop(&self, _: Stopping) {
        Self::note("stop");
        Self::say("stops");
    }
}

#[test]
fn data_source_callbacks_belong_to_the_capture_that_is_attached() {
    let early = capture();
    let handle = early.handle();
    thread::spawn(|| {
        let other = capture();
        let handle = other.handle();
        Probe::register();
        assert_eq!(Probe::calls_in(handle), ["setup", "start"]);
        assert_eq!(texts(&other.finish()), ["starts", "stops"]);
        assert_eq!(Probe::calls_in(handle), ["setup", "start", "stop"]);
    })
    .join()
    .unwrap();
    assert_eq!(Probe::calls_in(handle), [""; 0]);
    Probe::say("reached");
    assert_eq!(Probe::calls_in(handle), ["setup", "start"]);
    // Callbacks of a session belong to no capture, even if this thread makes them.
    drop(InMemorySession::start().unwrap());
    Probe::say("again");
    assert_eq!(
        texts(&early.finish()),
        ["starts", "reached", "again", "stops"]
    );
    assert_eq!(Probe::calls_in(handle), ["setup", "start", "stop"]);
}

/// A data source that never reports that it has stopped.
struct Stubborn;

static STOPPING: Mutex<Vec<Stopping>> = Mutex::new(Vec::new());

impl DataSource for Stubborn {
    const NAME: &'static str = "com.example.stubborn";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(Stubborn);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self
    }

    fn on_stop(&self, stopping: Stopping) {
        if CaptureHandle::current() == *KEPT.lock().unwrap() {
            STOPPING.lock().unwrap().push(stopping);
        }
    }
}

static KEPT: Mutex<Option<CaptureHandle>> = Mutex::new(None);

#[test]
fn late_answer_does_not_keep_dropped_capture_alive() {
    let capture = capture();
    Stubborn::register();
    *KEPT.lock().unwrap() = Some(capture.handle());
    drop(capture);
    let answers = std::mem::take(&mut *STOPPING.lock().unwrap());
    assert_eq!(answers.len(), 1);
    drop(answers);
    let next = self::capture();
    Stubborn::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_str("next");
            });
        });
    });
    assert_eq!(texts(&next.finish()).pop().unwrap(), "next");
}

/// A data source that writes a text of its configuration into each packet.
struct Configured {
    text: String,
}

impl DataSource for Configured {
    const NAME: &'static str = "com.example.configured";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(Configured);

    fn on_setup(setup: &Setup<'_>) -> Self {
        let text = setup
            .decoder()
            .legacy_config()
            .unwrap()
            .unwrap_or("nothing");
        Self {
            text: text.to_owned(),
        }
    }
}

#[test]
fn a_capture_may_have_a_configuration() {
    let configured = |text: &str| {
        let mut fields = HeapBuffered::<protos::DataSourceConfig<'_>>::new();
        fields.message().set_legacy_config(text);
        let source = DataSourceConfig::new(Configured::NAME).source_specific(&fields.to_vec());
        let config = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(64))
            .add_data_source(source);
        let capture = capture_with(config);
        Configured::trace(|cx| {
            let text = cx.instance().text.clone();
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_str(&text);
                });
            });
        });
        texts(&capture.finish())
    };
    assert_eq!(configured("loud"), ["loud"]);
    assert_eq!(configured("quiet"), ["quiet"]);
}

#[test]
fn a_configuration_that_makes_no_capture_is_refused_by_name() {
    let refused = |config: TraceConfig, text: &str| {
        let panicked = panic::catch_unwind(|| capture_with(config)).unwrap_err();
        let message = *panicked.downcast::<String>().unwrap();
        assert!(message.starts_with("cannot capture: "), "{message}");
        assert!(message.contains(text), "{message}");
        assert_eq!(CaptureHandle::current(), None);
    };
    let nothing = || TraceConfig::empty().add_buffer(BufferConfig::ring(64));
    refused(nothing(), "data_sources: is empty");
    let triggers = TriggerConfig::new(TriggerMode::Stop, Duration::from_secs(1))
        .add_trigger(Trigger::new("t"));
    refused(
        nothing().record_all().triggers(triggers),
        "trigger_config is not supported",
    );
}
