use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::thread;

use parking_lot::Mutex;

use crate::trace_buffer::ClientIdentity;
use crate::{ConnectRequest, ProducerEndpoint, SessionOwner, SessionRequest, State};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::{
    DataSourceDescriptor, DataSourceSetup, FlushFlags, Producer, ServiceControl,
};
use tracezero_core::ids::{FlushId, InstanceId, SessionId};
use tracezero_core::shm::{Geometry, shared_memory};

use super::harness::{Call, TestSession, World, recording};

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(4))
        .add_data_source(DataSourceConfig::new("ds"))
}

fn session_of(world: &World, owner: Arc<dyn SessionOwner>) -> SessionId {
    let request = SessionRequest {
        recording: Arc::new(recording(&config()).unwrap()),
        uid: 0,
        owner,
        writes_into_file: false,
        wake: None,
        crash_files: None,
    };
    world.service.enable(request).unwrap()
}

/// A producer that reports from another thread that a data source has stopped. The service's call
/// waits for that thread.
#[derive(Default)]
struct DelegatingProducer {
    endpoint: Mutex<Weak<ProducerEndpoint>>,
}

impl Producer for DelegatingProducer {
    fn set_up_data_source(&self, _: InstanceId, _: &DataSourceSetup) -> bool {
        true
    }
    fn start_data_source(&self, _: InstanceId) {}

    fn stop_data_source(&self, instance: InstanceId) {
        let endpoint = self.endpoint.lock().upgrade();
        let answer = thread::spawn(move || {
            if let Some(endpoint) = endpoint {
                endpoint.notify_stopped(instance);
            }
        });
        answer.join().unwrap();
    }

    fn flush(&self, _: FlushId, _: &[InstanceId], _: FlushFlags) {}
    fn clear_incremental_state(&self, _: &[InstanceId]) {}
}

#[test]
fn producer_may_wait_for_another_thread_inside_a_call() {
    let world = World::new();
    let (_, memory) = shared_memory(Geometry::new(4096, 4096).unwrap()).unwrap();
    let producer = Arc::new(DelegatingProducer::default());
    let endpoint = world
        .service
        .connect_producer(ConnectRequest::new(
            "p",
            ClientIdentity::default(),
            memory,
            producer.clone(),
        ))
        .map(Arc::new)
        .unwrap();
    *producer.endpoint.lock() = Arc::downgrade(&endpoint);
    let registered = endpoint.register_data_source(DataSourceDescriptor {
        name: "ds".to_owned(),
        notifies_stop: true,
        ..DataSourceDescriptor::default()
    });
    registered.unwrap();
    let session = world.session(config());
    session.disable();
    assert_eq!(session.state(), Some(State::Disabled));
}

/// An owner that holds another session, and frees it when it is dropped.
struct HoldingOwner {
    _held: TestSession,
}

impl SessionOwner for HoldingOwner {}

#[test]
fn the_owner_of_a_session_may_hold_another_one() {
    let world = World::new();
    let held = world.session(config());
    let held_id = held.id;
    let holder = session_of(&world, Arc::new(HoldingOwner { _held: held }));
    world.service.free(holder);
    assert_eq!(world.service.state(held_id), None);
}

struct PanickingOwner;

impl SessionOwner for PanickingOwner {
    fn all_data_sources_started(&self) {
        panic!("an owner that panics");
    }
}

#[test]
fn panic_in_a_call_resumes_and_other_calls_are_made() {
    let world = World::new();
    let begun = panic::catch_unwind(AssertUnwindSafe(|| {
        session_of(&world, Arc::new(PanickingOwner));
    }));
    assert!(begun.is_err());
    let producer = world.producer("p");
    producer.register("ds");
    let started = producer.calls();
    assert!(
        started.contains(&Call::Start("ds".to_owned())),
        "{started:?}"
    );
}
