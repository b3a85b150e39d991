//! A list of the producers and sessions of a service, for tools that show them.

use std::time::Duration;

use super::context::ConnectedProducer;
use super::control::Control;
use super::instance::{Instance, InstanceState};
use super::phase::State;
use super::tracing_session::TracingSession;
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::ids::{ProducerId, SessionId};

/// The producers and sessions of a service at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceState {
    /// The producers in the order in which they connected.
    pub producers: Vec<ProducerState>,
    /// The sessions that the asking user may clone, in the order in which they began.
    pub sessions: Vec<SessionSummary>,
    /// The number of sessions of all users that are not freed, including clones.
    pub session_count: usize,
    /// The number of sessions that are recording.
    pub started_session_count: usize,
}

/// A connected producer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerState {
    /// The id that the service gave it.
    pub id: ProducerId,
    /// The name that configurations know the producer by.
    pub name: String,
    /// The name and version of its library, as it says; may be empty.
    pub sdk_version: String,
    /// The user that it runs as; `None` if unknown.
    pub uid: Option<u32>,
    /// The id of its process; `None` if unknown.
    pub pid: Option<u32>,
    /// The data sources that it offers, in the order of their registration.
    pub data_sources: Vec<DataSourceDescriptor>,
}

/// The phase of a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// The session waits for `SessionControl::start` or for a trigger.
    Configured,
    /// The session is recording.
    Started,
    /// The session waits until its data sources have stopped.
    Stopping,
    /// The session has ended: it was stopped, its time is up, its file is full, or writing failed.
    Ended,
}

impl SessionState {
    /// Returns the phase as applications see it.
    #[doc(hidden)]
    #[must_use]
    pub const fn of(state: State) -> Self {
        match state {
            State::Configured => Self::Configured,
            State::Started => Self::Started,
            State::Stopping => Self::Stopping,
            State::Disabled | State::ClonedReadOnly => Self::Ended,
        }
    }
}

/// A data source in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceSummary {
    /// The name of the producer.
    pub producer_name: String,
    /// The name of the data source.
    pub data_source: String,
    /// True if it has started and not stopped.
    pub is_started: bool,
}

impl TracingSession {
    pub(super) fn instance_summaries(&self) -> Vec<InstanceSummary> {
        let summary = |instance: &Instance| InstanceSummary {
            producer_name: instance.producer_name.clone(),
            data_source: instance.descriptor.name.clone(),
            is_started: instance.state == InstanceState::Started,
        };
        self.instances.iter().map(summary).collect()
    }
}

/// A summary of a session that is not freed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// The id that the service gave it.
    pub id: SessionId,
    /// Its unique name, if it has one.
    pub name: Option<String>,
    /// The user that it belongs to.
    pub uid: u32,
    /// The phase of its life.
    pub state: SessionState,
    /// True if it is a clone of another session.
    pub is_snapshot: bool,
    /// The sizes of its buffers in KiB.
    pub buffer_sizes_kib: Vec<u32>,
    /// The time after which it ends; `None` if it does not end by itself.
    pub duration: Option<Duration>,
    /// When it started, in nanoseconds on the trace clock; `None` if it has not started.
    pub started_ns: Option<u64>,
    /// The score by which a session is chosen for a bug report; 0 for none.
    pub bugreport_score: i32,
    /// The name of its trace in bug reports.
    pub bugreport_filename: Option<String>,
    /// The number of data sources that its configuration lists.
    pub data_source_count: usize,
    /// The number of instances of data sources that it has now.
    pub instance_count: usize,
}

impl Control {
    /// Returns the producers and sessions that a user may see.
    pub(super) fn service_state(&self, uid: u32) -> ServiceState {
        ServiceState {
            producers: self.producer_states(),
            sessions: self.session_summaries(uid),
            session_count: self.sessions.len(),
            started_session_count: self
                .sessions
                .values()
                .filter(|session| session.is_started())
                .count(),
        }
    }

    fn producer_states(&self) -> Vec<ProducerState> {
        let state = |(&id, producer): (&ProducerId, &ConnectedProducer)| {
            let client = producer.link.client();
            let data_sources = producer.data_sources.iter();
            ProducerState {
                id,
                name: producer.name.clone(),
                sdk_version: producer.sdk_version.clone(),
                uid: client.uid,
                pid: client.pid,
                data_sources: data_sources
                    .map(|data_source| data_source.descriptor.clone())
                    .collect(),
            }
        };
        self.producers.iter().map(state).collect()
    }

    fn session_summaries(&self, uid: u32) -> Vec<SessionSummary> {
        self.sessions
            .iter()
            .filter(|(_, session)| session.is_visible_to(uid))
            .map(|(&id, session)| {
                let config = &session.recording.config;
                SessionSummary {
                    id,
                    name: session.recording.unique_name().map(str::to_owned),
                    uid: session.uid,
                    state: SessionState::of(session.state()),
                    is_snapshot: session.is_snapshot(),
                    buffer_sizes_kib: config.buffers.iter().map(|buffer| buffer.size_kb).collect(),
                    duration: (config.duration_ms != 0)
                        .then(|| Duration::from_millis(config.duration_ms.into())),
                    started_ns: session.started_ns,
                    bugreport_score: config.bugreport_score,
                    bugreport_filename: config.bugreport_filename.clone(),
                    data_source_count: config.data_sources.len(),
                    instance_count: session.instances.len(),
                }
            })
            .collect()
    }
}
