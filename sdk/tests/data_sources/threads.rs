//! Sessions that start and stop while threads trace.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tracezero::{
    BufferConfig, DataSource, DataSourceConfig, Error, Setup, Starting, Stopping, TraceConfig,
};

use super::probe::{START_PATIENCE, alone, numbers};

const SESSIONS_PER_THREAD: u64 = 250;
const THREADS: u64 = 4;
/// The pause between two packets of a thread, so that sessions can start and stop quickly.
const PAUSE: Duration = Duration::from_micros(50);

/// The numbers of instances that were set up, started, stopped and dropped.
static SET_UP: AtomicU64 = AtomicU64::new(0);
static STARTED: AtomicU64 = AtomicU64::new(0);
static STOPPED: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// A data source that numbers its packets without a gap.
struct Busy {
    next: Mutex<u64>,
}

impl DataSource for Busy {
    const NAME: &'static str = "com.example.busy";
    type ThreadState = u64;
    type IncrementalState = ();
    tracezero::data_source_state!(Busy);

    fn on_setup(_: &Setup<'_>) -> Self {
        // Relaxed, here and below: the counts are read after all threads have ended.
        SET_UP.fetch_add(1, Ordering::Relaxed);
        Self {
            next: Mutex::new(0),
        }
    }

    fn on_start(&self, starting: Starting) {
        STARTED.fetch_add(1, Ordering::Relaxed);
        drop(starting);
    }

    fn on_stop(&self, stopping: Stopping) {
        STOPPED.fetch_add(1, Ordering::Relaxed);
        drop(stopping);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

fn write_next() {
    Busy::trace(|cx| {
        *cx.thread_state() += 1;
        let number = {
            let mut next = cx.instance().next.lock().unwrap();
            *next += 1;
            *next
        };
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_counter(number);
            });
        });
    });
}

#[test]
fn a_thousand_sessions_start_and_stop_while_threads_trace() -> Result<(), Error> {
    let _alone = alone();
    let is_over = AtomicBool::new(false);
    let traced = thread::scope(|scope| {
        let tracers = [(); THREADS as usize].map(|()| {
            scope.spawn(|| {
                // Relaxed: the threads may notice the flag a little later.
                while !is_over.load(Ordering::Relaxed) {
                    write_next();
                    thread::sleep(PAUSE);
                }
            })
        });
        let sessions = [(); THREADS as usize].map(|()| {
            scope.spawn(|| {
                let record = |_| record_one_session();
                (0..SESSIONS_PER_THREAD)
                    .map(record)
                    .sum::<Result<u64, Error>>()
            })
        });
        let traced = sessions.map(thread::ScopedJoinHandle::join);
        is_over.store(true, Ordering::Relaxed);
        // Joins the threads: a scope does not wait until their thread-locals are dropped.
        tracers
            .into_iter()
            .for_each(|tracer| tracer.join().unwrap());
        let traced = traced.into_iter().map(Result::unwrap);
        traced.sum::<Result<u64, Error>>()
    })?;
    assert!(traced > 0, "nothing was traced");
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let sessions = SESSIONS_PER_THREAD * THREADS;
    // No ended thread keeps an instance.
    assert_eq!(
        [&SET_UP, &STARTED, &STOPPED, &DROPPED].map(count),
        [sessions; 4]
    );
    Ok(())
}

/// A data source whose first trace point is reached while two sessions record it.
struct Raced;

/// The barrier at which the first start meets the thread that traces during this start.
static FIRST_START: Barrier = Barrier::new(2);
static HAS_STARTED: AtomicBool = AtomicBool::new(false);

impl DataSource for Raced {
    const NAME: &'static str = "com.example.raced";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(Raced);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self
    }

    fn on_start(&self, starting: Starting) {
        // Relaxed: one thread calls all starts.
        if !HAS_STARTED.swap(true, Ordering::Relaxed) {
            FIRST_START.wait();
            // Gives the other thread time to reach its trace point. The trace point must wait until
            // this start is over: otherwise its packet would be missing in a session.
            thread::sleep(Duration::from_millis(20));
        }
        drop(starting);
    }
}

fn write(number: u64) {
    Raced::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_counter(number);
            });
        });
    });
}

#[test]
fn packets_during_start_on_another_thread_reach_all_sessions() -> Result<(), Error> {
    let _alone = alone();
    let config = || {
        TraceConfig::empty()
            .add_buffer(BufferConfig::ring(256))
            .add_data_source(DataSourceConfig::new(Raced::NAME))
    };
    let sessions = [config().record_in_memory()?, config().record_in_memory()?];
    let waited = thread::scope(|scope| {
        let other = scope.spawn(|| {
            FIRST_START.wait();
            let started = Instant::now();
            write(2);
            started.elapsed()
        });
        write(1);
        other.join().unwrap()
    });
    for session in sessions {
        let mut numbers = numbers(&session.finish().0);
        numbers.sort_unstable();
        // Packet 2 may be missing only if its trace point gave up waiting for a delayed start.
        if waited < START_PATIENCE || numbers.len() > 1 {
            assert_eq!(numbers, [1, 2]);
        } else {
            assert_eq!(numbers, [1]);
        }
    }
    Ok(())
}

/// Records one session. Returns the number of its packets.
fn record_one_session() -> Result<u64, Error> {
    // Enough room for the other threads' packets while this thread is delayed.
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(8 * 1024))
        .add_data_source(DataSourceConfig::new(Busy::NAME));
    let session = config.record_in_memory()?;
    write_next();
    let (trace, report) = session.finish();
    assert_eq!(report.losses.overwritten + report.losses.dropped, 0);
    let mut numbers = numbers(&trace);
    numbers.sort_unstable();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    // At the end of the session, each thread may be writing one more packet: the threads that trace
    // and the threads that record sessions.
    let missing = numbers[numbers.len() - 1] - numbers.len() as u64;
    assert!(missing < 2 * THREADS, "{numbers:?}");
    Ok(numbers.len() as u64)
}
