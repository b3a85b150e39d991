//! Which callbacks are called, and when.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use support::wait_until;
use tracezero::{
    DataSource, DataSourceConfig, Error, InMemorySession, Setup, Starting, Stopping, data_source,
    instant,
};

use super::probe::{
    Callback, Probe, START_PATIENCE, act_in, alone, note, notes, numbers, recording,
};

#[test]
fn an_instance_is_set_up_started_flushed_stopped_and_dropped() -> Result<(), Error> {
    let _alone = alone();
    let session = recording("a").record_in_memory()?;
    assert_eq!(notes(), ["Setup a", "Start a"]);
    assert!(session.control().flush());
    drop(session.control().snapshot()?);
    drop(session.finish());
    assert_eq!(
        notes(),
        [
            "Setup a",
            "Start a",
            "Flush a Explicit Consumer",
            "Flush a TraceClone Service",
            "Flush a TraceStop Service",
            "Stop a",
            "Drop a",
        ]
    );
    Ok(())
}

#[test]
fn a_session_that_starts_later_sets_up_first_and_starts_then() -> Result<(), Error> {
    let _alone = alone();
    let session = recording("a").deferred_start().record_in_memory()?;
    assert_eq!(notes(), ["Setup a"]);
    assert!(!Probe::is_enabled());
    session.control().start();
    assert_eq!(notes(), ["Setup a", "Start a"]);
    assert!(Probe::is_enabled());
    drop(session.finish());
    assert!(!Probe::is_enabled());
    Ok(())
}

#[test]
fn an_instance_that_never_started_is_not_stopped() -> Result<(), Error> {
    let _alone = alone();
    drop(recording("a").deferred_start().record_in_memory()?);
    assert_eq!(notes(), ["Setup a", "Drop a"]);
    Ok(())
}

#[test]
fn sessions_have_instances_of_their_own() -> Result<(), Error> {
    let _alone = alone();
    let first = recording("a").record_in_memory()?;
    let second = recording("b").record_in_memory()?;
    let mut labels = Vec::new();
    Probe::trace(|cx| labels.push(cx.instance().label.clone()));
    assert_eq!(labels, ["a", "b"]);
    Probe::write(1);
    let (trace, _) = first.finish();
    assert_eq!(numbers(&trace), [1]);
    Probe::write(2);
    let (trace, _) = second.finish();
    assert_eq!(numbers(&trace), [1, 2]);
    let ends = ["Stop a", "Drop a", "Stop b", "Drop b"];
    let notes = notes().into_iter();
    let notes: Vec<_> = notes.filter(|it| ends.contains(&it.as_str())).collect();
    assert_eq!(notes, ends);
    Ok(())
}

#[test]
fn a_session_that_lists_a_data_source_twice_has_two_instances() -> Result<(), Error> {
    let _alone = alone();
    let config = recording("a").add_data_source(DataSourceConfig::new(Probe::NAME));
    let session = config.record_in_memory()?;
    let mut labels = Vec::new();
    Probe::trace(|cx| labels.push(cx.instance().label.clone()));
    assert_eq!(labels, ["a", ""]);
    Probe::write(7);
    assert_eq!(numbers(&session.finish().0), [7, 7]);
    Ok(())
}

#[test]
fn packets_of_callbacks_are_recorded_from_start_to_stop() -> Result<(), Error> {
    let _alone = alone();
    act_in(Callback::Setup, |_| Probe::write(1));
    act_in(Callback::Start, |_| Probe::write(2));
    act_in(Callback::Flush, |_| Probe::write(3));
    act_in(Callback::Stop, |_| Probe::write(4));
    let (trace, _) = recording("a").record_in_memory()?.finish();
    assert_eq!(numbers(&trace), [2, 3, 4]);
    Ok(())
}

#[test]
fn service_clears_incremental_state_at_configured_period() -> Result<(), Error> {
    let _alone = alone();
    let config = recording("a").incremental_state_clear_period(Duration::from_millis(20));
    let session = config.record_in_memory()?;
    wait_until(|| notes().contains(&"Clear a".to_owned()));
    drop(session.finish());
    Ok(())
}

#[test]
fn registered_data_source_starts_without_any_trace_point() -> Result<(), Error> {
    struct Quiet;
    impl DataSource for Quiet {
        const NAME: &'static str = "com.example.quiet";
        type ThreadState = ();
        type IncrementalState = ();
        tracezero::data_source_state!(Quiet);

        fn on_setup(_: &Setup<'_>) -> Self {
            Self
        }
        fn on_start(&self, starting: Starting) {
            drop(starting);
            note("Quiet starts");
        }
        fn on_stop(&self, stopping: Stopping) {
            drop(stopping);
            note("Quiet stops");
        }
    }
    let _alone = alone();
    let session = InMemorySession::start()?;
    assert!(!notes().contains(&"Quiet starts".to_owned()));
    Quiet::register();
    assert!(notes().contains(&"Quiet starts".to_owned()));
    drop(session.finish());
    assert!(notes().contains(&"Quiet stops".to_owned()));
    Ok(())
}

#[test]
fn first_trace_point_records_in_a_running_session() -> Result<(), Error> {
    struct Late;
    data_source!(Late, "com.example.late");
    let _alone = alone();
    let session = InMemorySession::start()?;
    let threads = [(); 4].map(|()| {
        thread::spawn(|| {
            let started = Instant::now();
            Late::trace(|cx| {
                cx.packet(|packet| {
                    packet.for_testing(|event| {
                        event.set_counter(5);
                    });
                });
            });
            started.elapsed() < START_PATIENCE
        })
    });
    let in_time = threads.map(|thread| thread.join().unwrap());
    let in_time = in_time.into_iter().filter(|it| *it).count();
    let numbers = numbers(&session.finish().0);
    assert!(numbers.iter().all(|number| *number == 5));
    // A thread that waits too long for another thread to start the data source gives up, and its
    // packet may be missing. The packets of all other threads are in the trace.
    assert!((in_time.max(1)..=4).contains(&numbers.len()), "{numbers:?}");
    Ok(())
}

#[test]
fn data_sources_of_the_same_name_are_all_recorded() -> Result<(), Error> {
    struct One;
    data_source!(One, "com.example.namesake");
    struct Other;
    data_source!(Other, "com.example.namesake");
    let _alone = alone();
    let session = InMemorySession::start()?;
    One::trace(|cx| {
        let One = cx.instance();
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_counter(1);
            });
        });
    });
    Other::trace(|cx| {
        let Other = cx.instance();
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_counter(2);
            });
        });
    });
    assert_eq!(numbers(&session.finish().0), [1, 2]);
    Ok(())
}

#[test]
fn callback_may_wait_for_another_threads_first_trace_point() -> Result<(), Error> {
    struct Helper;
    data_source!(Helper, "com.example.helper");
    let _alone = alone();
    act_in(Callback::Start, |_| {
        let helper = thread::spawn(|| {
            instant!("app", "the first of this call site");
            Helper::trace(|_| ());
            Probe::write(1);
        });
        helper.join().unwrap();
    });
    let started = Instant::now();
    let (trace, _) = recording("a").record_in_memory()?.finish();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(numbers(&trace), [1]);
    Ok(())
}

#[test]
fn first_trace_point_does_not_deadlock_with_callback() -> Result<(), Error> {
    static LOCK: Mutex<()> = Mutex::new(());
    struct Locked;
    data_source!(Locked, "com.example.locked");
    let _alone = alone();
    act_in(Callback::Start, |_| {
        note("waiting");
        drop(LOCK.lock().unwrap());
    });
    let guard = LOCK.lock().unwrap();
    let starting = thread::spawn(|| recording("a").record_in_memory());
    wait_until(|| notes().contains(&"waiting".to_owned()));
    Locked::trace(|_| ());
    drop(guard);
    drop(starting.join().unwrap()?.finish());
    Ok(())
}
