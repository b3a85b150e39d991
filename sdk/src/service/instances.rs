//! Data sources, and the instances of them that sessions record.

use std::sync::Arc;

use super::control::Control;
use super::lifecycle_events::Event;
use super::timers::Timer;
use super::tracing_session::State;
use crate::coordination::{DataSourceDescriptor, DataSourceSetup};
use super::recording::RecordedDataSource;
use crate::ids::{InstanceId, ProducerId, SessionId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstanceState {
    Configured,
    Starting,
    Started,
    Stopping,
    Stopped,
}

/// A data source of one producer in one session.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    pub(super) producer: ProducerId,
    pub(super) producer_name: String,
    pub(super) descriptor: DataSourceDescriptor,
    /// Position in the buffers of the session.
    pub(super) buffer_index: usize,
    /// Position in the data sources of the configuration.
    pub(super) entry: usize,
    pub(super) state: InstanceState,
}

impl Instance {
    /// Whether it records, or is about to.
    pub(super) fn is_running(&self) -> bool {
        matches!(
            self.state,
            InstanceState::Starting | InstanceState::Started
        )
    }
}

impl Control {
    pub(super) fn register_data_source(
        &mut self,
        producer_id: ProducerId,
        descriptor: DataSourceDescriptor,
    ) {
        let Some(producer) = self.producers.get_mut(&producer_id) else {
            return;
        };
        producer.data_sources.push(descriptor.clone());
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.set_up_and_start(id, producer_id, &descriptor);
        }
    }

    pub(super) fn unregister_data_source(&mut self, producer_id: ProducerId, name: &str) {
        let Some(producer) = self.producers.get_mut(&producer_id) else {
            return;
        };
        producer
            .data_sources
            .retain(|descriptor| descriptor.name != name);
        self.remove_instances(|instance| {
            instance.producer == producer_id && instance.descriptor.name == name
        });
    }

    /// Ends and forgets instances whose data source or producer is gone.
    pub(super) fn remove_instances(&mut self, is_gone: impl Fn(&Instance) -> bool) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            let removed: Vec<Instance> = session
                .instances
                .extract_if(.., |instance| is_gone(instance))
                .collect();
            for instance in &removed {
                let instance_id = instance.id;
                if instance.is_running() {
                    if let Some(producer) = self.producers.get(&instance.producer) {
                        let link = Arc::clone(&producer.calls_to);
                        self.calls.note(move || link.stop_data_source(instance_id));
                    }
                    session.tell_state(&mut self.calls, instance, false);
                }
            }
            if !removed.is_empty() {
                self.check_all_started(id);
                self.check_all_stopped(id);
            }
        }
    }

    /// Sets up the data sources of all producers that a new session wants.
    pub(super) fn set_up_all(&mut self, id: SessionId) {
        let offered: Vec<(ProducerId, DataSourceDescriptor)> = self
            .producers
            .iter()
            .flat_map(|(&producer, connected)| {
                let descriptors = connected.data_sources.iter();
                descriptors.map(move |descriptor| (producer, descriptor.clone()))
            })
            .collect();
        for (producer, descriptor) in offered {
            self.set_up_and_start(id, producer, &descriptor);
        }
    }

    /// Sets up the instances of a data source that a session wants and does not have yet; starts
    /// them if the session has started.
    pub(super) fn set_up_and_start(
        &mut self,
        id: SessionId,
        producer_id: ProducerId,
        descriptor: &DataSourceDescriptor,
    ) {
        let (Some(session), Some(producer)) = (
            self.sessions.get_mut(&id),
            self.producers.get(&producer_id),
        ) else {
            return;
        };
        if !matches!(session.state, State::Configured | State::Started) {
            return;
        }
        let wanted: Vec<RecordedDataSource> = session
            .recording
            .data_sources_named(&descriptor.name)
            .into_iter()
            .filter(|entry| entry.admits_producer(&producer.name))
            .collect();
        for (ordinal, entry) in wanted.iter().enumerate() {
            let exists = session.instances.iter().any(|instance| {
                instance.producer == producer_id
                    && instance.descriptor.name == descriptor.name
                    && instance.entry == entry.index
            });
            if exists {
                continue;
            }
            self.last_instance.0 += 1;
            let instance = self.last_instance;
            let buffer = &session.buffers[entry.buffer_index];
            producer.link.allow(buffer);
            let setup = DataSourceSetup {
                session: id,
                name: descriptor.name.clone(),
                ordinal,
                target_buffer: buffer.id,
                progress: Arc::clone(&buffer.progress),
                exhausted_policy: entry.exhausted_policy,
                config: session.recording.data_source_config(entry, id, buffer.id),
            };
            let link = Arc::clone(&producer.calls_to);
            self.calls
                .note(move || link.set_up_data_source(instance, &setup));
            session.instances.push(Instance {
                id: instance,
                producer: producer_id,
                producer_name: producer.name.clone(),
                descriptor: descriptor.clone(),
                buffer_index: entry.buffer_index,
                entry: entry.index,
                state: InstanceState::Configured,
            });
            session.instances_ever += 1;
        }
        if session.state == State::Started {
            self.start_instances(id);
        }
    }

    /// Starts the instances that are set up.
    pub(super) fn start_instances(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        for index in 0..session.instances.len() {
            let instance = &mut session.instances[index];
            if instance.state != InstanceState::Configured {
                continue;
            }
            instance.state = if instance.descriptor.notifies_start {
                InstanceState::Starting
            } else {
                InstanceState::Started
            };
            let instance_id = instance.id;
            if let Some(producer) = self.producers.get(&instance.producer) {
                let link = Arc::clone(&producer.calls_to);
                self.calls
                    .note(move || link.start_data_source(instance_id));
            }
            let instance = &session.instances[index];
            if instance.state == InstanceState::Started {
                session.tell_state(&mut self.calls, instance, true);
            }
        }
        self.check_all_started(id);
    }

    pub(super) fn data_source_started(&mut self, producer: ProducerId, instance_id: InstanceId) {
        let Some((id, index)) = self.find_instance(producer, instance_id) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let instance = &mut session.instances[index];
        if instance.state != InstanceState::Starting {
            return;
        }
        instance.state = InstanceState::Started;
        let instance = &session.instances[index];
        session.tell_state(&mut self.calls, instance, true);
        self.check_all_started(id);
    }

    pub(super) fn data_source_stopped(&mut self, producer: ProducerId, instance_id: InstanceId) {
        let Some((id, index)) = self.find_instance(producer, instance_id) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let instance = &mut session.instances[index];
        if instance.state != InstanceState::Stopping {
            return;
        }
        instance.state = InstanceState::Stopped;
        let instance = &session.instances[index];
        session.tell_state(&mut self.calls, instance, false);
        self.check_all_stopped(id);
    }

    /// Stops all instances of a session. Those that tell when they are done are waited for, unless
    /// `immediately`.
    pub(super) fn stop_instances(&mut self, id: SessionId, immediately: bool) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        for index in 0..session.instances.len() {
            let instance = &mut session.instances[index];
            let was_running = instance.is_running();
            let was_stopping = instance.state == InstanceState::Stopping;
            let waits = was_running && instance.descriptor.notifies_stop && !immediately;
            instance.state = match instance.state {
                InstanceState::Stopping if !immediately => InstanceState::Stopping,
                _ if waits => InstanceState::Stopping,
                _ => InstanceState::Stopped,
            };
            let instance_id = instance.id;
            if was_running && let Some(producer) = self.producers.get(&instance.producer) {
                let link = Arc::clone(&producer.calls_to);
                self.calls.note(move || link.stop_data_source(instance_id));
            }
            let instance = &session.instances[index];
            if (was_running || was_stopping) && instance.state == InstanceState::Stopped {
                session.tell_state(&mut self.calls, instance, false);
            }
        }
    }

    /// Notes it, once, when every data source of a started session has started.
    pub(super) fn check_all_started(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let all_started = session
            .instances
            .iter()
            .all(|instance| !matches!(instance.state, InstanceState::Starting | InstanceState::Configured));
        if session.state != State::Started || session.all_started || !all_started {
            return;
        }
        session.all_started = true;
        self.timers.cancel(id, |timer| *timer == Timer::SlowStart);
        let session = self.sessions.get_mut(&id).expect("looked up above");
        session.note_event(&*self.environment, Event::AllDataSourcesStarted);
        let owner = Arc::clone(&session.owner);
        self.calls.note(move || owner.all_data_sources_started());
    }

    fn find_instance(&self, producer: ProducerId, id: InstanceId) -> Option<(SessionId, usize)> {
        self.sessions.iter().find_map(|(&session_id, session)| {
            let index = session
                .instances
                .iter()
                .position(|instance| instance.id == id && instance.producer == producer)?;
            Some((session_id, index))
        })
    }
}
