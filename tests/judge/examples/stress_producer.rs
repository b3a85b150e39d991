//! Takes the place of the producer that Perfetto's program `stress_test` starts; `ci/interop.sh` runs it.
//!
//! The test starts `traced`, producers and `perfetto`, and then checks the trace. Each packet of a
//! sequence has the next number of a generator and a counter, and payloads whose letters depend on
//! that number. So the test notices each packet that is lost, cut off, mixed up or moved.
//!
//! A producer reads its configuration from the standard input, and runs until it is killed.

use std::error::Error;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use protozero::OwnedMessage as _;
use tracezero::protos::test_event::TestPayload;
use tracezero::{DataSource, Setup, Starting, Stopping, System};

use self::schema::owned::StressTestConfig;
use self::schema::owned::stress_test_config::WriterTiming;

mod schema {
    protozero::include_protos!("stress");
}

/// The longest time that a thread waits for shared memory. No packet may be lost, however slow the
/// daemon is.
const STALL_LIMIT: Duration = Duration::from_secs(30);

/// The configuration that the test has sent.
static CONFIG: OnceLock<StressTestConfig> = OnceLock::new();

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Vec::new();
    io::stdin().read_to_end(&mut config)?;
    let config = StressTestConfig::decode(&config)?;
    CONFIG.get_or_init(|| config);
    Stress::register();
    let _system = System::builder()
        .producer_name("stress_producer")
        .stall_limit(STALL_LIMIT)
        .connect()?;
    loop {
        thread::park();
    }
}

/// A session of the test.
struct Stress {
    config: &'static StressTestConfig,
    is_over: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl DataSource for Stress {
    const NAME: &'static str = "perfetto.stress_test";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(Stress);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self {
            config: CONFIG.get().expect("set before the process connects"),
            is_over: Arc::default(),
            threads: Mutex::default(),
        }
    }

    fn on_start(&self, starting: Starting) {
        let threads = (0..self.config.num_threads.unwrap_or(1)).map(|_| {
            let config = self.config;
            let is_over = Arc::clone(&self.is_over);
            thread::spawn(move || write_packets(config, &is_over))
        });
        let mut all = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(threads);
        drop(starting);
    }

    fn on_stop(&self, stopping: Stopping) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in all.drain(..) {
            // If the thread panicked, it has printed its own message, and the test misses packets.
            let _ = thread.join();
        }
        // The last packets of the threads belong to the session.
        drop(stopping);
    }
}

/// Writes packets until the session is over, or the thread has written as many as it should.
fn write_packets(config: &StressTestConfig, is_over: &AtomicBool) {
    let start = Instant::now();
    let limit = match config.max_events {
        None | Some(0) => u64::MAX,
        Some(limit) => limit.into(),
    };
    let mut seq_value = FIRST_SEQ_VALUE;
    for counter in 1..=limit {
        let is_last = counter == limit || is_over.load(Ordering::Relaxed);
        let timing = timing(config, start.elapsed());
        let rate = timing.rate_mean.unwrap_or_default();
        let period = Duration::try_from_secs_f64(1.0 / rate).unwrap_or_default();
        if start.elapsed().as_secs_f64() * rate < counter as f64 {
            thread::sleep(period);
        }
        Stress::trace(|cx| {
            let now = cx.now_ns();
            cx.packet(|packet| {
                packet.set_timestamp(now);
                packet.for_testing(|event| {
                    event.set_seq_value(seq_value);
                    event.set_counter(counter);
                    if is_last {
                        event.set_is_last(true);
                    }
                    let nesting = config.nesting.unwrap_or_default();
                    event.payload(|payload| fill(payload, timing, seq_value, nesting));
                });
            });
        });
        if is_last {
            break;
        }
        seq_value = next_seq_value(seq_value);
    }
}

/// Returns the timing that applies so long after the start.
fn timing(config: &StressTestConfig, elapsed: Duration) -> &WriterTiming {
    let period_ms = u128::from(config.burst_period_ms.unwrap_or_default());
    let burst_ms = u128::from(config.burst_duration_ms.unwrap_or_default());
    let is_burst = period_ms > 0 && elapsed.as_millis() % period_ms + burst_ms > period_ms;
    let timing = if is_burst {
        &config.burst_timings
    } else {
        &config.steady_state_timings
    };
    timing.as_ref().expect("each configuration has timings")
}

/// Writes two equal texts, with a pause and the inner payloads between them.
fn fill(payload: &mut TestPayload<'_>, timing: &WriterTiming, seq_value: u32, nesting: u32) {
    let len = timing.payload_mean.unwrap_or_default() as usize / 2;
    // The 64 characters from `!` on.
    let letters = (b'!'..=b'`').cycle().skip(seq_value as usize % 64);
    let text: String = letters.take(len).map(char::from).collect();
    payload.add_str(&text);
    payload.set_remaining_nesting_depth(nesting);
    let pause = timing.payload_write_time_ms.unwrap_or_default();
    if pause > 0 {
        thread::sleep(Duration::from_millis(pause.into()));
    }
    if nesting > 0 {
        payload.add_nested(|inner| fill(inner, timing, seq_value, nesting - 1));
    }
    payload.add_str(&text);
}

/// The generator that the test knows, `minstd_rand0` of C++ with the seed 1.
const FIRST_SEQ_VALUE: u32 = 16_807;

fn next_seq_value(seq_value: u32) -> u32 {
    let next = u64::from(seq_value) * 16_807 % 2_147_483_647;
    next.try_into().expect("less than 2^31")
}
