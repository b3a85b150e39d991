//! Applications of tracezero as producers of its daemon: what Perfetto's protocol does not have.

use std::thread;
use std::time::Duration;

use support::{Account, alone, packets_of, wait_until};
use tracezero::reader::{Record, TraceReader};
use tracezero::{System, enabled, instant};
use tracezero_ipc::consumer_port::requests::Request;

use crate::consumer::encoded;
use crate::daemon::TestDaemon;

fn connect(daemon: &TestDaemon) -> System {
    let system = System::builder()
        .socket(daemon.producers().to_str().unwrap())
        .producer_name("application")
        .connect()
        .unwrap();
    assert!(system.wait_connected(Duration::from_secs(10)));
    system
}

fn config(categories: &str) -> String {
    format!(
        "buffers {{ size_kb: 256 }}
         producers {{ producer_name: 'application' shm_size_kb: 32 page_size_kb: 4 }}
         data_sources {{ config {{
             name: 'track_event'
             buffer_exhausted_policy: BUFFER_EXHAUSTED_DROP
             track_event_config {{ disabled_categories: '*' {categories} }}
         }} }}"
    )
}

/// Records far more than the memory and the ring have room for.
fn record() {
    const THREADS: usize = 4;
    const EVENTS: u64 = 20_000;
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            thread::Builder::new()
                .name(format!("writer {number}"))
                .spawn(|| (0..EVENTS).for_each(|number| instant!("flood", "event", number)))
                .unwrap()
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn account_of_an_application_closes_although_packets_were_lost() {
    let _alone = alone();
    let daemon = TestDaemon::start();
    let system = connect(&daemon);
    let mut consumer = daemon.consumer();
    let enabled_request = consumer.enable(&config("enabled_categories: 'flood'"));
    wait_until(|| enabled!("flood"));
    record();
    let flush = consumer.ask_to_flush(10_000);
    assert_eq!(consumer.peer.reply(flush), Some(vec![]));
    consumer.disable();
    assert_eq!(consumer.ended(enabled_request), None);
    let trace = consumer.read();
    let account = Account::of(&trace);
    let told = system.stats().packets;
    assert_eq!(
        account.begun,
        told.packets_begun - told.packets_empty,
        "{account:?}"
    );
    assert_eq!(account.dropped, told.packets_dropped, "{account:?}");
    assert!(account.dropped + account.overwritten > 0, "{account:?}");
    let in_trace = packets_of(&trace, &account.sequence_ids);
    assert_eq!(account.read + account.undecodable, in_trace, "{account:?}");
    let lost_by_daemon = account.overwritten + account.otherwise_lost;
    assert_eq!(
        (in_trace + lost_by_daemon, account.in_flight),
        (account.begun - account.dropped, 0),
        "{account:?}"
    );
    assert!(
        account.threads.iter().any(|name| name == "writer 3"),
        "{account:?}"
    );
}

#[test]
fn account_of_an_application_that_has_gone_stays() {
    let _alone = alone();
    let daemon = TestDaemon::start();
    let system = connect(&daemon);
    let mut consumer = daemon.consumer();
    let enabled_request = consumer.enable(&config("enabled_categories: 'flood'"));
    wait_until(|| enabled!("flood"));
    record();
    let told = system.stats().packets;
    drop(system);
    wait_until(|| daemon.state().producers.is_empty());
    consumer.disable();
    assert_eq!(consumer.ended(enabled_request), None);
    let account = Account::of(&consumer.read());
    assert_eq!(
        account.begun,
        told.packets_begun - told.packets_empty,
        "{account:?}"
    );
    assert_eq!(account.dropped, told.packets_dropped, "{account:?}");
    assert_eq!(account.in_flight, 0, "{account:?}");
}

#[test]
fn categories_change_while_a_session_records() {
    let _alone = alone();
    let daemon = TestDaemon::start();
    let _system = connect(&daemon);
    let mut consumer = daemon.consumer();
    let enabled_request = consumer.enable(&config("enabled_categories: 'first'"));
    wait_until(|| enabled!("first"));
    assert!(!enabled!("second"));
    let record_both = || {
        instant!("first", "of first");
        instant!("second", "of second");
    };
    record_both();
    let config = encoded(&config("enabled_categories: 'second'"));
    let reply = consumer.call(&Request::ChangeTraceConfig { config: &config });
    assert_eq!(reply, Some(vec![]));
    wait_until(|| enabled!("second"));
    assert!(!enabled!("first"));
    record_both();
    let flush = consumer.ask_to_flush(10_000);
    assert_eq!(consumer.peer.reply(flush), Some(vec![]));
    consumer.disable();
    assert_eq!(consumer.ended(enabled_request), None);
    let trace = consumer.read();
    let mut reader = TraceReader::new(&trace[..]);
    let mut names = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        if let Record::Event(event) = record {
            names.push(event.name().to_owned());
        }
    }
    assert_eq!(names, ["of first", "of second"]);
}
