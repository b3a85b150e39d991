//! The session of a capture, with a service and a producer of its own.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{ConfigError, TraceConfig};
use crate::error::Error;
use crate::report::{BufferMemory, Report};
use crate::runtime::Runtime;
use tracezero_config::SessionConfig;
use tracezero_core::clock;
use tracezero_core::forked_child;
use tracezero_core::ids::SessionId;
use tracezero_core::shm::Geometry;
use tracezero_producer::{self as producer, Realm};
use tracezero_service::{SessionOwner, SessionRequest};
use tracezero_track_event::TRACK_EVENT;

/// The size of a capture's shared memory. It has chunks for 2,848 threads at once. Pages that are
/// never used cost nothing.
const SIZE_BYTES: usize = 1 << 20;
const PAGE_SIZE_BYTES: usize = 4096;

/// How long to wait at most before looking again whether data sources have stopped.
const WAIT: Duration = Duration::from_secs(60);

/// The session of a capture, in a realm of its own. Dropping it ends the session.
pub(super) struct CaptureSession {
    connected: ConnectedRuntime,
    id: SessionId,
}

impl CaptureSession {
    /// Starts to record the threads that are attached to the session's realm.
    pub(super) fn start(config: TraceConfig) -> Result<Self, Error> {
        check(&config.session_config()?)?;
        let recording = Arc::new(config.recording()?);
        // Connect libraries before `forked_child::enter`: a thread inside the tracer registers no
        // call sites.
        tracezero_track_event::connect();
        let inside = forked_child::enter().ok_or(Error::ForkedChild)?;
        let geometry = Geometry::new(SIZE_BYTES, PAGE_SIZE_BYTES).map_err(Error::SharedMemory)?;
        let realm = Realm::of_new_capture();
        let (runtime, control) = Runtime::new(realm, Some(geometry), None)?;
        // From here on, tracing must stay off in forked children, because they have copies of the
        // runtime's locks.
        inside.make_permanent();
        producer::connect(
            realm,
            &control,
            Some(runtime.arbiter()),
            TRACK_EVENT.state(),
        );
        let runtime = Arc::new(runtime);
        let connected = ConnectedRuntime { realm, runtime };
        let id = connected.runtime.service().enable(SessionRequest {
            recording,
            uid: rustix::process::getuid().as_raw(),
            owner: Arc::new(Owner),
            writes_into_file: false,
            wake: None,
            crash_files: None,
        })?;
        Ok(Self { connected, id })
    }

    pub(super) fn realm(&self) -> Realm {
        self.connected.realm
    }

    /// Stops recording. Returns the trace and the report. Both are empty in a forked child.
    pub(super) fn finish(self) -> (Vec<u8>, Report) {
        let mut trace = Vec::new();
        let Ok(runtime) = self.connected.runtime.here() else {
            return (trace, Report::default());
        };
        let service = runtime.service();
        service.flush_and_disable(self.id);
        // A capture has no timer thread, so this thread runs the timers, which limit how long data
        // sources may take to stop.
        loop {
            let deadline_ns = service.run_due_timers();
            let wait = deadline_ns.map_or(WAIT, |deadline_ns| {
                Duration::from_nanos(deadline_ns.saturating_sub(clock::now_ns()))
            });
            if service.wait_until_disabled(self.id, wait.min(WAIT)) {
                break;
            }
        }
        service.read(self.id, &mut trace);
        let counts = service.read_counts(self.id);
        let stats = service.stats(self.id).unwrap_or_default();
        // The number of nested trace points is left out (0), because it is known only for the whole
        // process.
        let report = Report::new(
            counts,
            trace.len() as u64,
            stats.sequences,
            0,
            BufferMemory::default(),
        );
        (trace, report)
    }
}

/// Rejects a configuration that captures nothing, or asks for more than a capture.
fn check(config: &SessionConfig) -> Result<(), ConfigError> {
    if config.data_sources.is_empty() && !config.records_all {
        return Err(ConfigError::Invalid {
            field: "data_sources".to_owned(),
            reason: "is empty, so nothing is captured; add data sources, or `record_all`"
                .to_owned(),
        });
    }
    let refused = [
        (
            config.triggers.is_some(),
            "trigger_config",
            "leave it out (triggers do not reach captures)",
        ),
        (
            config.write_into_file,
            "write_into_file",
            "leave it out (`Capture::finish` returns the trace)",
        ),
    ];
    match refused.into_iter().find(|(is_there, ..)| *is_there) {
        Some((_, field, remedy)) => Err(ConfigError::Unsupported {
            field: field.to_owned(),
            remedy,
        }),
        None => Ok(()),
    }
}

impl Drop for CaptureSession {
    fn drop(&mut self) {
        if let Ok(runtime) = self.connected.runtime.here() {
            let service = runtime.service();
            service.disable(self.id);
            service.free(self.id);
        }
    }
}

/// Connects the data sources of the process to a realm, until it is dropped.
struct ConnectedRuntime {
    realm: Realm,
    runtime: Arc<Runtime>,
}

impl Drop for ConnectedRuntime {
    fn drop(&mut self) {
        match forked_child::enter() {
            Some(_inside) => producer::disconnect(self.realm),
            // Leak a reference, so that the runtime is not dropped. It belongs to the parent, and
            // other threads of the parent may have held its locks at the fork.
            None => mem::forget(Arc::clone(&self.runtime)),
        }
    }
}

/// Receives the service's callbacks for the session, and ignores all of them.
struct Owner;

impl SessionOwner for Owner {}
