//! Callbacks that panic. The session goes on, and ends.

use std::time::Duration;

use support::{not_started, wait_until};
use tracezero::{DataSource as _, Error, InMemorySession};

use super::probe::{Callback, Probe, act_in, alone, notes, numbers, recording};

#[test]
fn an_instance_that_cannot_be_made_records_nothing() -> Result<(), Error> {
    let _alone = alone();
    act_in(Callback::Setup, |_| panic!("in on_setup, as planned"));
    let session = recording("a").record_in_memory()?;
    assert!(!Probe::is_enabled());
    Probe::write(1);
    assert!(session.control().flush());
    let trace = session.finish().0;
    assert_eq!(numbers(&trace), []);
    assert_eq!(not_started(&trace)[0].1, Probe::NAME);
    assert_eq!(notes(), ["Setup a", "Drop a"]);
    Ok(())
}

#[test]
fn an_instance_that_panics_when_it_starts_records() -> Result<(), Error> {
    let _alone = alone();
    act_in(Callback::Start, |_| panic!("in on_start, as planned"));
    let session = recording("a").record_in_memory()?;
    Probe::write(1);
    assert_eq!(numbers(&session.finish().0), [1]);
    Ok(())
}

#[test]
fn instance_that_panics_in_flush_counts_as_flushed() -> Result<(), Error> {
    let _alone = alone();
    act_in(Callback::Flush, |_| panic!("in on_flush, as planned"));
    let session = recording("a").record_in_memory()?;
    Probe::write(1);
    assert!(session.control().flush());
    assert_eq!(numbers(&session.finish().0), [1]);
    Ok(())
}

#[test]
fn an_instance_that_panics_when_it_clears_its_state_goes_on() -> Result<(), Error> {
    let _alone = alone();
    act_in(Callback::Clear, |_| panic!("in on_clear_.., as planned"));
    let config = recording("a").incremental_state_clear_period(Duration::from_millis(5));
    let session = config.record_in_memory()?;
    wait_until(|| notes().iter().filter(|it| *it == "Clear a").count() > 1);
    Probe::write(1);
    assert_eq!(numbers(&session.finish().0), [1]);
    Ok(())
}

#[test]
fn instance_that_panics_in_stop_counts_as_stopped() -> Result<(), Error> {
    let _alone = alone();
    act_in(Callback::Stop, |_| panic!("in on_stop, as planned"));
    let session = recording("a").record_in_memory()?;
    Probe::write(1);
    assert_eq!(numbers(&session.finish().0), [1]);
    assert!(!Probe::is_enabled());
    // The service works as before.
    let session = InMemorySession::start()?;
    Probe::write(2);
    assert_eq!(numbers(&session.finish().0), [2]);
    Ok(())
}
