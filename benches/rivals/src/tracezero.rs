//! The SDK of this repository, with a session in memory.

use ::tracezero::{BufferConfig, InMemorySession, TraceConfig, instant, span};

use crate::{RING_KB, Recording, SHARED_MEMORY_KB};

/// A session in memory.
#[derive(Debug)]
pub struct Tracezero {
    session: InMemorySession,
}

impl Tracezero {
    /// Starts a session with this much memory between writers and service.
    pub fn start_with(shared_memory_kb: u32) -> Self {
        let session = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(RING_KB))
            .shared_memory(shared_memory_kb, 4)
            .record_all()
            .record_in_memory()
            .expect("a session");
        Self { session }
    }

    /// Stops recording. Returns the trace.
    pub fn into_trace(self) -> Vec<u8> {
        self.session.finish().0
    }
}

impl Recording for Tracezero {
    const SDK: &str = "tracezero";

    fn start() -> Self {
        Self::start_with(SHARED_MEMORY_KB)
    }

    #[inline]
    fn instant() {
        instant!("bench", "instant");
    }

    #[inline]
    fn span() {
        let _span = span!("bench", "span");
    }

    #[inline]
    fn span_3_args(number: i32, size: u64, text: &'static str) {
        let _span = span!(
            "bench",
            "span_3_args",
            number = number,
            size = size,
            text = text
        );
    }

    fn finish(self) -> Option<u64> {
        Some(self.into_trace().len() as u64)
    }
}
