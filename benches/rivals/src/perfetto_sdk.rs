//! `perfetto-sdk`: the official binding, with the service of the C++ library in the same process.

use std::sync::{Arc, Mutex, PoisonError};

use ::perfetto_sdk::heap_buffer::HeapBuffer;
use ::perfetto_sdk::pb_msg::{PbMsg, PbMsgWriter};
use ::perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use ::perfetto_sdk::protos::config::data_source_config::DataSourceConfig;
use ::perfetto_sdk::protos::config::trace_config::{
    TraceConfig, TraceConfigBufferConfig, TraceConfigDataSource,
};
use ::perfetto_sdk::protos::config::track_event::track_event_config::TrackEventConfig;
use ::perfetto_sdk::tracing_session::TracingSession;
use ::perfetto_sdk::track_event::{EventContext, TrackEvent, TrackEventDebugArg};
use ::perfetto_sdk::{scoped_track_event, track_event_categories, track_event_instant};

use crate::{RING_KB, Recording, SHARED_MEMORY_KB};

track_event_categories! {
    pub mod categories {
        ("bench", "What is measured", []),
    }
}
// The event macros expect the categories under this name.
use categories as perfetto_te_ns;

/// A session with the service in this process.
pub struct PerfettoSdk {
    session: TracingSession,
}

impl PerfettoSdk {
    /// Starts a session with this much memory between writers and service.
    pub fn start_with(shared_memory_kb: u32) -> Self {
        let arguments = ProducerInitArgsBuilder::new()
            .backends(Backends::IN_PROCESS)
            .shmem_size_hint_kb(shared_memory_kb);
        Producer::init(arguments.build());
        TrackEvent::init();
        categories::register().expect("categories");
        Self::start_session()
    }

    /// Starts a session, after the library was initialized.
    pub fn start_session() -> Self {
        let mut session = TracingSession::in_process().expect("a session");
        session.setup(&config());
        session.start_blocking();
        Self { session }
    }

    /// Stops recording. Returns the trace.
    pub fn into_trace(mut self) -> Vec<u8> {
        self.session.stop_blocking();
        let trace = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&trace);
        self.session.read_trace_blocking(move |bytes, _has_more| {
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            received.extend_from_slice(bytes);
        });
        std::mem::take(&mut *trace.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns a configuration with a ring and the events of all categories.
fn config() -> Vec<u8> {
    let writer = PbMsgWriter::new();
    let buffer = HeapBuffer::new(writer.stream_writer());
    let mut message = PbMsg::new(&writer).expect("a message");
    let mut config = TraceConfig { msg: &mut message };
    config.set_buffers(|buffer: &mut TraceConfigBufferConfig| {
        buffer.set_size_kb(RING_KB);
    });
    config.set_data_sources(|source: &mut TraceConfigDataSource| {
        source.set_config(|config: &mut DataSourceConfig| {
            config.set_name("track_event");
            config.set_track_event_config(|config: &mut TrackEventConfig| {
                config.set_enabled_categories("*");
            });
        });
    });
    message.finalize();
    let mut encoded = vec![0; writer.stream_writer().get_written_size()];
    buffer.copy_into(&mut encoded);
    encoded
}

impl Recording for PerfettoSdk {
    const SDK: &str = "perfetto-sdk";

    fn start() -> Self {
        Self::start_with(SHARED_MEMORY_KB)
    }

    #[inline]
    fn instant() {
        track_event_instant!("bench", "instant");
    }

    #[inline]
    fn span() {
        scoped_track_event!("bench", "span");
    }

    #[inline]
    fn span_3_args(number: i32, size: u64, text: &'static str) {
        scoped_track_event!("bench", "span_3_args", |event: &mut EventContext| {
            event.add_debug_arg("number", TrackEventDebugArg::Int64(number.into()));
            event.add_debug_arg("size", TrackEventDebugArg::Uint64(size));
            event.add_debug_arg("text", TrackEventDebugArg::String(text));
        });
    }

    fn finish(self) -> Option<u64> {
        Some(self.into_trace().len() as u64)
    }
}
