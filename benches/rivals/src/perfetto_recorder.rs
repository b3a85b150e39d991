//! `perfetto-recorder`: events are pushed to a vector of their thread, and encoded when the program
//! asks for the trace.

use std::time::Duration;

use ::perfetto_recorder::{
    EVENTS_PER_ARG, EVENTS_PER_SPAN, ThreadTraceData, TraceBuilder, current_thread_reserve, scope,
};

use crate::{BATCH, Recording, time};

/// The maximal number of entries of a batch: three arguments per span, of which the text takes two
/// entries.
const ENTRIES_PER_BATCH: usize = BATCH as usize * (EVENTS_PER_SPAN + 4 * EVENTS_PER_ARG);

/// The recording of this process.
#[derive(Debug)]
pub struct PerfettoRecorder;

impl PerfettoRecorder {
    /// Stops recording. Returns the trace of this thread.
    pub fn into_trace(self) -> Vec<u8> {
        let mut trace = TraceBuilder::new().expect("a recording");
        trace.process_thread_data(&ThreadTraceData::take_current_thread());
        trace.encode_to_vec()
    }
}

impl Recording for PerfettoRecorder {
    const SDK: &str = if cfg!(feature = "fastant") {
        "perfetto-recorder, fastant"
    } else {
        "perfetto-recorder"
    };
    const HAS_INSTANTS: bool = false;

    fn start() -> Self {
        ::perfetto_recorder::start().expect("its feature `enable`");
        Self
    }

    #[inline]
    fn instant() {}

    #[inline]
    fn span() {
        scope!("span");
    }

    #[inline]
    fn span_3_args(number: i32, size: u64, text: &'static str) {
        scope!("span_3_args", number = number, size = size, text = text);
    }

    /// Reserves the vector before the measurement, and discards it afterwards.
    fn time_batch(&mut self, record: impl Fn()) -> Duration {
        current_thread_reserve(ENTRIES_PER_BATCH);
        let duration = time(BATCH, record);
        drop(ThreadTraceData::take_current_thread());
        duration
    }

    fn finish(self) -> Option<u64> {
        Some(self.into_trace().len() as u64)
    }
}
