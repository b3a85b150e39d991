//! `tracing-chrome`: a layer of `tracing` whose thread writes JSON.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ::tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing::{info, info_span};
use tracing_subscriber::layer::SubscriberExt;

use crate::{BATCH, Recording, time};

/// The maximal number of events that wait for the layer's thread. Recording is several times as
/// fast as writing, and fastest while that thread need not be woken.
const QUEUE_MAX: u32 = 200_000;

/// The recording of this process.
pub struct TracingChrome {
    layer: FlushGuard,
    file: File,
    /// An upper bound of the number of events that wait for the layer's thread.
    queued: u32,
}

/// A file that discards the bytes and counts them.
#[derive(Clone, Default)]
struct File {
    // The layer's thread changes `bytes` and `flushes`, and the recording thread reads them. The
    // release in `flush` pairs with the acquire in `time_batch`. `bytes` is read after the layer's
    // thread has been joined.
    bytes: Arc<AtomicU64>,
    flushes: Arc<AtomicU64>,
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

impl Recording for TracingChrome {
    const SDK: &str = "tracing-chrome";

    fn start() -> Self {
        let file = File::default();
        let (chrome, layer) = ChromeLayerBuilder::new()
            .writer(file.clone())
            .include_args(true)
            .build();
        let subscriber = tracing_subscriber::registry().with(chrome);
        tracing::subscriber::set_global_default(subscriber).expect("the first subscriber");
        Self {
            layer,
            file,
            queued: 0,
        }
    }

    #[inline]
    fn instant() {
        info!(target: "bench", "instant");
    }

    #[inline]
    fn span() {
        let _span = info_span!(target: "bench", "span").entered();
    }

    #[inline]
    fn span_3_args(number: i32, size: u64, text: &'static str) {
        let _span = info_span!(target: "bench", "span_3_args", number, size, text).entered();
    }

    /// Waits for the layer's thread from time to time, outside of the measured time.
    fn time_batch(&mut self, record: impl Fn()) -> Duration {
        let duration = time(BATCH, record);
        self.queued += BATCH;
        if self.queued >= QUEUE_MAX {
            let flushes = self.file.flushes.load(Ordering::Acquire);
            self.layer.flush();
            while self.file.flushes.load(Ordering::Acquire) == flushes {
                thread::yield_now();
            }
            self.queued = 0;
        }
        duration
    }

    fn finish(self) -> Option<u64> {
        drop(self.layer);
        Some(self.file.bytes.load(Ordering::Relaxed))
    }
}
