//! Callbacks that keep their answer (`Starting`, `Flushing`, `Stopping`) and give it later.

use std::thread;
use std::time::Duration;

use support::wait_until;
use tracezero::protos::TraceDecoder;
use tracezero::{DataSource as _, Error, SessionState};

use super::probe::{
    Callback, Probe, alone, give_answers, keep_answers_of, notes, numbers, recording,
};

/// A timeout for answers that always come, however slow the thread is.
const LONG_MS: u32 = 60_000;

#[test]
fn an_instance_is_traced_until_it_says_that_it_has_stopped() -> Result<(), Error> {
    let _alone = alone();
    keep_answers_of(Callback::Stop);
    let session = recording("a").record_in_memory()?;
    session.control().stop();
    assert_eq!(session.control().state(), SessionState::Stopping);
    assert!(Probe::is_enabled());
    Probe::write(1);
    // On another thread, while this one holds a chunk.
    thread::spawn(give_answers).join().unwrap();
    assert_eq!(session.control().state(), SessionState::Ended);
    assert!(!Probe::is_enabled());
    Probe::write(2);
    assert_eq!(numbers(&session.finish().0), [1]);
    Ok(())
}

#[test]
fn a_session_that_finishes_waits_for_an_instance_that_stops() -> Result<(), Error> {
    let _alone = alone();
    keep_answers_of(Callback::Stop);
    let config = recording("a").data_source_stop_timeout(Duration::from_millis(LONG_MS.into()));
    let session = config.record_in_memory()?;
    let stopper = thread::spawn(|| {
        wait_until(|| notes().contains(&"Stop a".to_owned()));
        thread::sleep(Duration::from_millis(30));
        Probe::write(1);
        give_answers();
    });
    assert_eq!(numbers(&session.finish().0), [1]);
    stopper.join().unwrap();
    Ok(())
}

#[test]
fn session_ends_without_instance_that_stops_too_late() -> Result<(), Error> {
    let _alone = alone();
    keep_answers_of(Callback::Stop);
    let config = recording("a").data_source_stop_timeout(Duration::from_millis(50));
    drop(config.record_in_memory()?.finish());
    assert!(Probe::is_enabled());
    give_answers();
    assert!(!Probe::is_enabled());
    Ok(())
}

#[test]
fn a_session_has_started_when_its_instances_say_so() -> Result<(), Error> {
    let _alone = alone();
    let (trace, _) = recording("a").record_in_memory()?.finish();
    assert!(says_that_all_started(&trace));
    keep_answers_of(Callback::Start);
    let (trace, _) = recording("b").record_in_memory()?.finish();
    assert!(!says_that_all_started(&trace));
    let session = recording("c").record_in_memory()?;
    Probe::write(1);
    give_answers();
    let (trace, _) = session.finish();
    assert!(says_that_all_started(&trace));
    assert_eq!(numbers(&trace), [1]);
    Ok(())
}

fn says_that_all_started(trace: &[u8]) -> bool {
    TraceDecoder::new(trace).packet().any(|packet| {
        let event = packet.unwrap().service_event().unwrap();
        let said = event.map(|event| event.all_data_sources_started().unwrap());
        said.flatten() == Some(true)
    })
}

#[test]
fn a_flush_waits_for_the_instances_that_flush() -> Result<(), Error> {
    let _alone = alone();
    keep_answers_of(Callback::Flush);
    let session = recording("a")
        .flush_timeout(Duration::from_millis(LONG_MS.into()))
        .record_in_memory()?;
    let flusher = thread::spawn(|| {
        wait_until(|| notes().contains(&"Flush a Explicit Consumer".to_owned()));
        thread::sleep(Duration::from_millis(30));
        Probe::write(1);
        give_answers();
    });
    assert!(session.control().flush());
    flusher.join().unwrap();
    assert_eq!(numbers(&session.finish().0), [1]);
    Ok(())
}

#[test]
fn a_flush_that_takes_too_long_fails_and_the_next_one_succeeds() -> Result<(), Error> {
    let _alone = alone();
    keep_answers_of(Callback::Flush);
    // Long enough for the second flush, even if its threads are delayed.
    let config = recording("a").flush_timeout(Duration::from_secs(1));
    let session = config.record_in_memory()?;
    assert!(!session.control().flush());
    give_answers();
    assert!(session.control().flush());
    drop(session.finish());
    Ok(())
}

#[test]
fn nobody_waits_for_the_flush_of_an_instance_that_has_stopped() -> Result<(), Error> {
    let _alone = alone();
    keep_answers_of(Callback::Flush);
    let first = recording("a")
        .flush_timeout(Duration::from_millis(50))
        .record_in_memory()?;
    assert!(!first.control().flush());
    drop(first.finish());
    // The instance `a` has stopped, but has not answered the flush.
    let second = recording("b")
        .flush_timeout(Duration::from_millis(LONG_MS.into()))
        .record_in_memory()?;
    let flusher = thread::spawn(|| {
        wait_until(|| notes().contains(&"Flush b Explicit Consumer".to_owned()));
        give_answers();
    });
    assert!(second.control().flush());
    flusher.join().unwrap();
    drop(second.finish());
    Ok(())
}
