//! A data source with callbacks: a thread samples the memory of this process while a session
//! records the data source. The session's configuration sets the period.
//!
//! `cargo run --example sampler` writes `sampler.pftrace`. The trace contains the schema of its
//! samples (`protos/memory.proto`), so Perfetto's viewer shows them as arguments of the events.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use protozero::HeapBuffered;
use tracezero::protos::track_event::Type;
use tracezero::{
    BufferConfig, DataSource, DataSourceConfig, Setup, Starting, Stopping, TraceConfig,
};

use self::schema::TrackEventExt as _; // adds `memory_sample` to an event

mod schema {
    protozero::include_protos!("memory");
}

/// The state of the data source for one session.
struct Sampler {
    period: Duration,
    thread: Mutex<Option<SamplerThread>>,
}

struct SamplerThread {
    /// The sender that keeps the thread running; the thread ends when the sender is dropped.
    keep_going: Sender<()>,
    handle: JoinHandle<()>,
}

const DEFAULT_PERIOD_MS: u32 = 100;

impl DataSource for Sampler {
    const NAME: &'static str = "com.example.sampler";
    const DESCRIPTORS: &'static [u8] = protozero::include_descriptor_set!("memory");
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(Sampler);

    fn on_setup(setup: &Setup<'_>) -> Self {
        let config = schema::SamplerDataSourceConfigDecoder::new(setup.config());
        // If the message is malformed or lacks the field, the default applies.
        let sampler = config.sampler().ok().flatten();
        let period_ms = sampler.and_then(|sampler| sampler.period_ms().ok().flatten());
        Self {
            period: Duration::from_millis(period_ms.unwrap_or(DEFAULT_PERIOD_MS).into()),
            thread: Mutex::new(None),
        }
    }

    fn on_start(&self, starting: Starting) {
        let (keep_going, ended) = mpsc::channel();
        let period = self.period;
        let handle = thread::spawn(move || {
            record_memory();
            // Tells the service, after the first sample, that the data source has started.
            drop(starting);
            while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                record_memory();
            }
        });
        let thread = SamplerThread { keep_going, handle };
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }

    fn on_stop(&self, stopping: Stopping) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(SamplerThread { keep_going, handle }) = thread {
            drop(keep_going);
            // If the thread panicked, it has printed its own message.
            let _ = handle.join();
        }
        drop(stopping);
    }
}

fn record_memory() {
    let Some((virtual_kb, resident_kb)) = memory_kb() else {
        return;
    };
    Sampler::trace(|cx| {
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.track_event(|event| {
                event.set_type(Type::INSTANT);
                event.add_categories("memory");
                event.set_name("sample");
                event.memory_sample(|sample| {
                    sample.set_virtual_kb(virtual_kb);
                    sample.set_resident_kb(resident_kb);
                });
            });
        });
    });
}

/// Returns the virtual and the resident memory of this process, in kB.
fn memory_kb() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some((value("VmSize:")?, value("VmRSS:")?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut fields = HeapBuffered::<schema::SamplerDataSourceConfig>::new();
    fields.message().sampler(|sampler| {
        sampler.set_period_ms(5);
    });
    let sampler = DataSourceConfig::new(Sampler::NAME).source_specific(&fields.to_vec());
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256))
        .add_data_source(sampler);

    Sampler::register();
    let session = config.record_to_file("sampler.pftrace")?;
    let mut memory = Vec::new();
    for _ in 0..20 {
        memory.push(vec![1_u8; 1 << 20]);
        thread::sleep(Duration::from_millis(5));
    }
    println!("{}", session.finish()?);
    Ok(())
}
