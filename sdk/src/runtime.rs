//! Connects the producer and the service of one process: they share memory, and a commit is a
//! function call.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::Error;
use tracezero_core::attributes::TraceAttributes;
use tracezero_core::clock;
use tracezero_core::commit::ServiceEndpoint;
use tracezero_core::coordination::{Producer, ServiceControl};
use tracezero_core::crash_files::{CrashFilesError, ProcessFolder};
use tracezero_core::forked_child;
use tracezero_core::own_attributes;
use tracezero_core::own_process;
use tracezero_core::own_thread;
use tracezero_core::process_hooks;
use tracezero_core::reentry;
use tracezero_core::shm::{Geometry, shared_memory};
use tracezero_producer::{self as producer, Arbiter, ArbiterConfig, ProcessProducer, Realm};
use tracezero_service::trace_buffer::ClientIdentity;
use tracezero_service::{
    CentralBuffer, ClockReading, ConnectRequest, Environment, Limits, Machine, Service,
};
use tracezero_track_event::TRACK_EVENT;

/// How long the timer thread sleeps at most while no timer is set.
const IDLE: Duration = Duration::from_secs(3600);

/// The limits on sessions of one process, all of which belong to the same user.
const LIMITS: Limits = Limits {
    sessions: 15,
    sessions_per_uid: 15,
    buffers_bytes: u64::MAX,
};

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// A producer and a service of this process. Captures of tests have runtimes of their own. The
/// runtime for sessions is created with the first session and is never dropped, because threads may
/// hold chunks of its memory at any time.
pub(crate) struct Runtime {
    service: Arc<Service>,
    arbiter: Arc<Arbiter>,
    geometry: Geometry,
    /// The folder that the shared memory is in, if it has crash files.
    crash_files: Option<Arc<ProcessFolder>>,
}

impl Runtime {
    /// Returns the runtime of this process, and creates it in the first call.
    ///
    /// `asked` is the geometry of the shared memory that a configuration asks for, and
    /// `crash_directory` the directory for its crash files. If the memory exists with another
    /// geometry or without crash files, that is an error.
    pub(crate) fn of_process(
        asked: Option<Geometry>,
        crash_directory: Option<&Path>,
    ) -> Result<&'static Self, Error> {
        static MAKING: Mutex<()> = Mutex::new(());
        // Connect libraries before `forked_child::enter`: a thread inside the tracer registers no
        // call sites.
        tracezero_track_event::connect();
        let inside = forked_child::enter().ok_or(Error::ForkedChild)?;
        let _guard = MAKING.lock();
        let runtime = match RUNTIME.get() {
            Some(runtime) => runtime,
            None => {
                let (made, control) = Self::new(Realm::Process, asked, crash_directory)?;
                start_timers(&made.service).map_err(Error::Thread)?;
                let runtime = RUNTIME.get_or_init(|| made);
                inside.make_permanent();
                if runtime.crash_files.is_some() {
                    process_hooks::at_exit(remove_crash_files);
                }
                // Trace points may call the service from now on.
                producer::connect(
                    Realm::Process,
                    &control,
                    Some(&runtime.arbiter),
                    TRACK_EVENT.state(),
                );
                runtime
            }
        };
        match (crash_directory, &runtime.crash_files) {
            (None, _) => {}
            (Some(_), None) => return Err(CrashFilesError::MemoryExists.into()),
            (Some(asked), Some(existing)) if asked != existing.directory() => {
                let existing = existing.directory().to_owned();
                return Err(CrashFilesError::OtherDirectory { existing }.into());
            }
            (Some(_), Some(_)) => {}
        }
        match asked {
            Some(asked) if asked != runtime.geometry => Err(Error::SharedMemoryExists {
                existing_size_bytes: runtime.geometry.size_bytes(),
                existing_page_size_bytes: runtime.geometry.page_size_bytes(),
            }),
            _ => Ok(runtime),
        }
    }

    /// Returns the runtime of this process, if the process has had a session.
    pub(crate) fn existing() -> Option<&'static Self> {
        RUNTIME.get()?.here().ok()
    }

    /// Returns the runtime, or an error in a forked child: the runtime belongs to the parent.
    pub(crate) fn here(&self) -> Result<&Self, Error> {
        if forked_child::is_disabled() {
            return Err(Error::ForkedChild);
        }
        Ok(self)
    }

    /// Creates the producer and the service of a realm. Data sources are not connected yet.
    pub(crate) fn new(
        realm: Realm,
        asked: Option<Geometry>,
        crash_directory: Option<&Path>,
    ) -> Result<(Self, Arc<dyn ServiceControl>), Error> {
        let geometry = match asked {
            Some(geometry) => geometry,
            None => Geometry::new(
                Geometry::DEFAULT_SIZE_BYTES,
                Geometry::DEFAULT_PAGE_SIZE_BYTES,
            )
            .map_err(Error::SharedMemory)?,
        };
        let name = own_process::executable_name();
        let crash_files = crash_directory
            .map(|directory| ProcessFolder::create(directory, &name, geometry))
            .transpose()?;
        let memory = match &crash_files {
            Some(folder) => folder.shared_memory(),
            None => shared_memory(geometry),
        };
        let (producer_memory, service_memory) = memory.map_err(Error::SharedMemory)?;
        let environment: Arc<dyn Environment> = match realm {
            // The traces of tests must not depend on the machine.
            Realm::Capture(_) => Arc::new(Machine),
            _ => Arc::new(ProcessEnvironment),
        };
        let service = Service::new(environment, LIMITS);
        let client = ClientIdentity {
            uid: Some(rustix::process::getuid().as_raw()),
            pid: Some(std::process::id()),
        };
        let producer = Arc::new(ProcessProducer::new(realm));
        let calls_to: Arc<dyn Producer> = producer.clone();
        let endpoint = service
            .connect_producer(ConnectRequest::new(&name, client, service_memory, calls_to))
            .map(Arc::new)
            .expect("the first producer gets an id");
        let commits: Arc<dyn ServiceEndpoint> = endpoint.clone();
        let arbiter = Arbiter::with_crash_files(
            producer_memory,
            commits,
            ArbiterConfig::default(),
            crash_files.clone(),
        );
        producer.set_arbiter(&arbiter);
        let runtime = Self {
            service,
            arbiter,
            geometry,
            crash_files,
        };
        Ok((runtime, endpoint))
    }

    /// Returns the folder for crash files, if the process has them.
    pub(crate) fn crash_files(&self) -> Option<&Arc<ProcessFolder>> {
        self.crash_files.as_ref()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn arbiter(&self) -> &Arc<Arbiter> {
        &self.arbiter
    }

    pub(crate) fn service(&self) -> ServiceInUse<'_> {
        ServiceInUse {
            service: &self.service,
            _inside: reentry::TracerGuard::enter(),
        }
    }

    /// Drops the producer's counts for `buffers`, whose session has ended.
    pub(crate) fn forget(&self, buffers: &[Arc<CentralBuffer>]) {
        let _inside = reentry::TracerGuard::enter();
        for buffer in buffers {
            self.arbiter.forget_buffer(buffer.id);
        }
    }
}

/// The machine, for the service of this process: its traces say where they come from.
struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn now_ns(&self) -> u64 {
        Machine.now_ns()
    }

    fn time_of_day_ms(&self) -> u64 {
        Machine.time_of_day_ms()
    }

    fn clocks(&self) -> Vec<ClockReading> {
        Machine.clocks()
    }

    fn random_bits(&self) -> u64 {
        Machine.random_bits()
    }

    fn uid(&self) -> u32 {
        Machine.uid()
    }

    fn trace_attributes(&self) -> TraceAttributes {
        own_attributes::of_process()
    }
}

/// The service, borrowed for calls. While it is held, trace points of this thread are only counted,
/// because the thread may hold locks of the service.
pub(crate) struct ServiceInUse<'a> {
    service: &'a Service,
    _inside: reentry::TracerGuard,
}

impl Deref for ServiceInUse<'_> {
    type Target = Service;

    fn deref(&self) -> &Service {
        self.service
    }
}

/// Removes the crash files when the process exits, unless a session was left unfinished.
extern "C" fn remove_crash_files() {
    let folder = Runtime::existing().and_then(|runtime| runtime.crash_files.as_ref());
    if let Some(folder) = folder {
        folder.remove_if_unused();
    }
}

/// Starts the thread that runs timers of sessions. The thread sleeps until the next timer is due.
fn start_timers(service: &Arc<Service>) -> std::io::Result<()> {
    let service = Arc::clone(service);
    let run = move || {
        let _inside = reentry::TracerGuard::enter();
        loop {
            let deadline_ns = service.run_due_timers();
            let timeout = deadline_ns.map_or(IDLE, |deadline_ns| {
                Duration::from_nanos(deadline_ns.saturating_sub(clock::now_ns()))
            });
            service.wait_for_earlier_timer(deadline_ns, timeout);
        }
    };
    own_thread::spawn("tracezero-timers", run).map(drop)
}
