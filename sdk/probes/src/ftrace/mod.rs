//! The data source `linux.ftrace`: events of the kernel.

mod bundle; // the packet of one CPU's events
mod compact_sched; // columns of the scheduler's events
mod config; // what a session wants
mod cpu_stats; // counts of the kernel's buffers
mod encoding; // fields by numbers that are known at run time only
mod error; // why events cannot be recorded
mod event_encoder; // from records to packets
mod event_groups; // groups of events, for users
mod event_names; // which events a configuration means
mod event_plan; // how a record of this kernel becomes an event
mod event_table; // published events and their fields
mod field_type; // what a field of a record contains
mod format; // how this kernel lays out its records
#[cfg(fuzzing)]
pub mod fuzzing; // what fuzz targets call
mod generic_events; // events that are not published
#[cfg(test)]
mod kernel_tests; // decodes what this kernel records
mod packed_column; // packed fields that grow value by value
mod live; // counts the recorders of this process
mod page; // the records of a page
mod printk_formats; // texts that the kernel keeps
mod reader; // the thread that reads
mod recorder; // the tracer and its pages, for one session
#[cfg(test)]
mod setup_tests; // a session on a tracefs that is a folder
mod stats; // what the recorder says of itself
mod symbols; // names of the kernel's functions
mod trace_clock; // the clock of the kernel's events
mod tracefs; // the kernel's files

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracezero::{DataSource, DataSourceConfig, Flushing, Setup, Starting, Stopping, TraceContext};
use tracezero_kernel::protos::FtraceConfig;

use self::config::Config;
use self::reader::{Reader, Requests};
use self::recorder::Recorder;
use self::tracefs::Tracefs;
use crate::instance_key::InstanceKey;
use crate::source_config::source_config;

pub use self::error::FtraceError;
pub use self::event_groups::{EventGroup, UnknownEventGroup};

/// The data source `linux.ftrace`, which records events of the kernel.
///
/// Each session has an instance of the kernel's tracer for itself, with buffers of its own, so sessions
/// and other tools do not disturb each other (unless the configuration names an instance). A thread of the process reads the buffers: each 100 ms,
/// when a session flushes, and when it ends.
///
/// Only root may control the kernel's tracer, or a process with the capability `CAP_DAC_OVERRIDE`.
/// [`Ftrace::check`] tells whether this process may. Otherwise a session records everything but the
/// kernel, and the trace says why (`FtraceStats`).
///
/// Configurations are Perfetto's `FtraceConfig`; [`KernelConfig`](crate::KernelConfig) makes one.
pub struct Ftrace {
    key: InstanceKey,
    state: Mutex<State>,
}

/// The state of an instance.
enum State {
    /// The tracer is set up, and records nothing yet.
    SetUp(Box<Recorder>),
    Records(Reader),
    /// The trace says what is missing when the instance starts.
    Failed(Arc<FtraceError>),
    /// The session records no event of the kernel.
    Idle,
}

impl Ftrace {
    /// Checks whether this process may record events of the kernel.
    ///
    /// # Errors
    ///
    /// [`FtraceError::NotMounted`], [`FtraceError::Denied`].
    pub fn check() -> Result<(), FtraceError> {
        Tracefs::find().map(|_| ())
    }

    /// Returns a configuration of this data source. `write` sets its options.
    #[must_use]
    pub fn config(write: impl FnOnce(&mut FtraceConfig<'_>)) -> DataSourceConfig {
        source_config(Self::NAME, |configs| configs.ftrace_config(write))
    }

    /// Writes why nothing is recorded, if that is so.
    fn write_failure(&self) {
        let error = match &*self.state.lock() {
            State::Failed(error) => Arc::clone(error),
            State::SetUp(_) | State::Records(_) | State::Idle => return,
        };
        stats::write_failure(self.key, &*error);
    }

    /// Returns the way to the thread of the instance, if it has one.
    fn requests(&self) -> Option<Requests> {
        match &*self.state.lock() {
            State::Records(reader) => Some(reader.requests()),
            State::SetUp(_) | State::Failed(_) | State::Idle => None,
        }
    }

    /// Waits until this process records no event of the kernel any more. Returns false if it still does
    /// after `limit`.
    ///
    /// Sessions that have ended do not record any more. After a connection to a daemon has ended, its
    /// sessions take a moment, and a process that exits meanwhile leaves the kernel recording for
    /// nobody, until another process records with this package.
    #[must_use]
    pub fn wait_until_idle(limit: Duration) -> bool {
        live::wait_until_idle(limit)
    }

    /// Calls `write` for the session of an instance.
    fn with_instance(key: InstanceKey, mut write: impl FnMut(&mut TraceContext<'_, Self>)) {
        Self::trace(|cx| {
            if cx.instance().key == key {
                write(cx);
            }
        });
    }
}

impl DataSource for Ftrace {
    const NAME: &'static str = "linux.ftrace";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(Ftrace);

    fn on_setup(setup: &Setup<'_>) -> Self {
        let key = InstanceKey::unique();
        let state = match Config::decode(setup.config()) {
            Ok(config) if config.is_empty() => State::Idle,
            Ok(config) => {
                let recorder = Tracefs::find()
                    .and_then(|tracefs| Recorder::set_up(&tracefs, key, setup.session(), config));
                match recorder {
                    Ok(recorder) => State::SetUp(Box::new(recorder)),
                    Err(error) => State::Failed(Arc::new(error)),
                }
            }
            Err(error) => State::Failed(Arc::new(error)),
        };
        Self {
            key,
            state: Mutex::new(state),
        }
    }

    fn on_start(&self, _: Starting) {
        {
            let mut state = self.state.lock();
            *state = match std::mem::replace(&mut *state, State::Idle) {
                State::SetUp(mut recorder) => {
                    recorder.start();
                    match Reader::start(*recorder) {
                        Ok(reader) => State::Records(reader),
                        Err(error) => State::Failed(Arc::new(FtraceError::Thread(error))),
                    }
                }
                other => other,
            };
        }
        self.write_failure();
    }

    fn on_flush(&self, flushing: Flushing) {
        // Not while the state is locked: an answer calls the service.
        match self.requests() {
            Some(requests) => requests.flush(flushing),
            // A ring may have overwritten it.
            None => self.write_failure(),
        }
    }

    fn on_stop(&self, stopping: Stopping) {
        if let Some(requests) = self.requests() {
            requests.stop(stopping);
        }
    }
}

impl fmt::Debug for Ftrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ftrace")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
