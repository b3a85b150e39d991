//! Records into a file with each SDK, as its own documentation shows it and with its defaults.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use dial9::core::clock_monotonic_ns;
use dial9::format::TraceEvent;
use dial9::{Dial9Handle, DiskBuffer, Recorder};
use fastrace::Span;
use fastrace::collector::{Config, Reporter, SpanContext, SpanRecord};
use fastrace::local::LocalSpan;
use perfetto_sdk::heap_buffer::HeapBuffer;
use perfetto_sdk::pb_msg::{PbMsg, PbMsgWriter};
use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::protos::config::data_source_config::DataSourceConfig;
use perfetto_sdk::protos::config::trace_config::{
    TraceConfig, TraceConfigBufferConfig, TraceConfigDataSource,
};
use perfetto_sdk::protos::config::track_event::track_event_config::TrackEventConfig;
use perfetto_sdk::tracing_session::TracingSession;
use perfetto_sdk::track_event::{EventContext, TrackEvent, TrackEventDebugArg};
use perfetto_sdk::{scoped_track_event, track_event_categories};
use tracing::info_span;
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::layer::SubscriberExt;

/// The number of spans between two reads of the clock; for `fastrace`, the spans of one request.
pub const BATCH: u64 = 100;

/// The name of all spans, by which they are counted in the file.
pub const SPAN: &str = "span";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    Tracezero,
    Perfetto,
    PerfettoLarge,
    TracingChrome,
    Fastrace,
    Dial9,
}

impl Sdk {
    pub const ALL: [Self; 6] = [
        Self::Tracezero,
        Self::Perfetto,
        Self::PerfettoLarge,
        Self::TracingChrome,
        Self::Fastrace,
        Self::Dial9,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Tracezero => "tracezero",
            Self::Perfetto => "perfetto-sdk",
            Self::PerfettoLarge => "perfetto-sdk-large",
            Self::TracingChrome => "tracing-chrome",
            Self::Fastrace => "fastrace",
            Self::Dial9 => "dial9",
        }
    }
}

impl FromStr for Sdk {
    type Err = Box<dyn std::error::Error>;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let sdk = Self::ALL.into_iter().find(|sdk| sdk.name() == name);
        sdk.ok_or_else(|| format!("{name}: not an SDK of this program").into())
    }
}

/// A recording into a file. Each process has only one.
pub trait FileRecording {
    fn start(file: &Path) -> Self;

    /// Makes [`BATCH`] spans with two arguments: a number, which counts up from `first`, and a
    /// text.
    fn batch(first: u64, text: &'static str);

    fn finish(self);
}

/// The SDK of this repository.
pub struct Tracezero(tracezero::Session);

impl FileRecording for Tracezero {
    fn start(file: &Path) -> Self {
        Self(tracezero::Session::record_to_file(file).expect("a session"))
    }

    fn batch(first: u64, text: &'static str) {
        for number in first..first + BATCH {
            let _span = tracezero::span!("bench", "span", number = number, text = text);
        }
    }

    /// Prints the report to standard error, to compare it with the counts of the file.
    fn finish(self) {
        let report = self.0.finish().expect("a report");
        eprintln!("tracezero: {report}");
    }
}

track_event_categories! {
    pub mod categories {
        ("bench", "What is measured", []),
    }
}
// The event macros of the binding look for the categories under this name.
use categories as perfetto_te_ns;

/// The official binding, with a ring of 1 MiB as in its examples.
pub struct PerfettoSdk(TracingSession);

/// The official binding with more memory: a ring of 64 MiB and 4 MiB of shared memory, written to
/// the file ten times a second.
pub struct PerfettoSdkLarge(PerfettoSdk);

impl PerfettoSdk {
    fn start_with(
        arguments: ProducerInitArgsBuilder,
        ring_kb: u32,
        write_period_ms: Option<u32>,
        file: &Path,
    ) -> Self {
        Producer::init(arguments.backends(Backends::IN_PROCESS).build());
        TrackEvent::init();
        categories::register().expect("categories");
        let mut session = TracingSession::in_process().expect("a session");
        session.setup(&perfetto_config(ring_kb, write_period_ms, file));
        session.start_blocking();
        Self(session)
    }
}

/// Returns the configuration of a session that the service writes into `file`, which must not
/// exist.
fn perfetto_config(ring_kb: u32, write_period_ms: Option<u32>, file: &Path) -> Vec<u8> {
    let writer = PbMsgWriter::new();
    let buffer = HeapBuffer::new(writer.stream_writer());
    let mut message = PbMsg::new(&writer).expect("a message");
    let mut config = TraceConfig { msg: &mut message };
    config.set_buffers(|buffer: &mut TraceConfigBufferConfig| {
        buffer.set_size_kb(ring_kb);
    });
    config.set_data_sources(|source: &mut TraceConfigDataSource| {
        source.set_config(|config: &mut DataSourceConfig| {
            config.set_name("track_event");
            config.set_track_event_config(|config: &mut TrackEventConfig| {
                config.set_enabled_categories("*");
            });
        });
    });
    config.set_write_into_file(true);
    config.set_output_path(file.to_str().expect("a path of characters"));
    if let Some(period_ms) = write_period_ms {
        config.set_file_write_period_ms(period_ms);
    }
    message.finalize();
    let mut encoded = vec![0; writer.stream_writer().get_written_size()];
    buffer.copy_into(&mut encoded);
    encoded
}

impl FileRecording for PerfettoSdk {
    fn start(file: &Path) -> Self {
        Self::start_with(ProducerInitArgsBuilder::new(), 1024, None, file)
    }

    fn batch(first: u64, text: &'static str) {
        for number in first..first + BATCH {
            scoped_track_event!("bench", "span", |event: &mut EventContext| {
                event.add_debug_arg("number", TrackEventDebugArg::Uint64(number));
                event.add_debug_arg("text", TrackEventDebugArg::String(text));
            });
        }
    }

    fn finish(mut self) {
        self.0.stop_blocking();
    }
}

impl FileRecording for PerfettoSdkLarge {
    fn start(file: &Path) -> Self {
        let arguments = ProducerInitArgsBuilder::new().shmem_size_hint_kb(4 * 1024);
        Self(PerfettoSdk::start_with(
            arguments,
            64 * 1024,
            Some(100),
            file,
        ))
    }

    fn batch(first: u64, text: &'static str) {
        PerfettoSdk::batch(first, text);
    }

    fn finish(self) {
        self.0.finish();
    }
}

/// A layer of `tracing` whose thread writes JSON.
pub struct TracingChrome(FlushGuard);

impl FileRecording for TracingChrome {
    fn start(file: &Path) -> Self {
        let builder = ChromeLayerBuilder::new().file(file).include_args(true);
        let (layer, guard) = builder.build();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::set_global_default(subscriber).expect("the first subscriber");
        Self(guard)
    }

    fn batch(first: u64, text: &'static str) {
        for number in first..first + BATCH {
            let _span = info_span!(target: "bench", "span", number, text).entered();
        }
    }

    fn finish(self) {
        drop(self.0);
    }
}

/// An SDK that records spans of requests. It has no file format, so the reporter here writes a line
/// for each span.
pub struct Fastrace;

struct Lines(BufWriter<File>);

impl Reporter for Lines {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        let file = &mut self.0;
        for span in spans {
            let SpanRecord {
                name,
                span_id,
                parent_id,
                begin_time_unix_ns,
                duration_ns,
                ..
            } = span;
            write!(
                file,
                "{name} {span_id} {parent_id} {begin_time_unix_ns} {duration_ns}"
            )
            .expect("room on the disk");
            for (key, value) in &span.properties {
                write!(file, " {key}={value:?}").expect("room on the disk");
            }
            writeln!(file).expect("room on the disk");
        }
        file.flush().expect("room on the disk");
    }
}

impl FileRecording for Fastrace {
    fn start(file: &Path) -> Self {
        let file = File::create(file).expect("a file");
        let lines = Lines(BufWriter::new(file));
        fastrace::set_reporter(lines, Config::default());
        Self
    }

    fn batch(first: u64, text: &'static str) {
        let root = Span::root("request", SpanContext::random());
        let _parent = root.set_local_parent();
        for number in first..first + BATCH {
            let _span = LocalSpan::enter_with_local_parent("span").with_properties(|| {
                [
                    ("number", Cow::Owned(number.to_string())),
                    ("text", Cow::Borrowed(text)),
                ]
            });
        }
    }

    fn finish(self) {
        fastrace::flush();
    }
}

/// A flight recorder for tokio, which also takes events of the application.
pub struct Dial9(Recorder);

/// A span, which is one event, recorded at its end.
#[derive(TraceEvent)]
#[traceevent(name = "span")]
struct Dial9Span {
    #[traceevent(timestamp)]
    ended_ns: u64,
    #[traceevent(role = "span.start")]
    started_ns: u64,
    number: u64,
    text: &'static str,
}

impl FileRecording for Dial9 {
    fn start(file: &Path) -> Self {
        let file = DiskBuffer::single_file(file).expect("a file");
        let recorder = dial9::recorder(file).build();
        recorder
            .install_global_handle()
            .expect("the first recorder");
        Self(recorder)
    }

    fn batch(first: u64, text: &'static str) {
        let handle = Dial9Handle::current();
        for number in first..first + BATCH {
            let started_ns = clock_monotonic_ns();
            handle.record_event_with(|| Dial9Span {
                ended_ns: clock_monotonic_ns(),
                started_ns,
                number,
                text,
            });
        }
    }

    fn finish(self) {
        self.0.graceful_shutdown(Duration::from_secs(60));
    }
}
