//! Instances: data sources of producers in the sessions that record them.

use std::sync::Arc;

use super::control::Control;
use super::instance::{Instance, InstanceState, RegisteredDataSource};
use super::lifecycle_events::{DataSourceName, Event};
use super::timers::Timer;
use super::tracing_session::State;
use tracezero_core::coordination::DataSourceSetup;
use tracezero_core::ids::{InstanceId, ProducerId, SessionId};

impl Control {
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
                if instance.is_wanted()
                    && let Some(producer) = self.producers.get(&instance.producer)
                {
                    let (link, instance_id) = (Arc::clone(&producer.calls_to), instance.id);
                    self.calls.note(move || link.stop_data_source(instance_id));
                }
                if instance.state != InstanceState::Stopped {
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
        let offered: Vec<(ProducerId, RegisteredDataSource)> = self
            .producers
            .iter()
            .flat_map(|(&producer, connected)| {
                let data_sources = connected.data_sources.iter();
                data_sources.map(move |data_source| (producer, data_source.clone()))
            })
            .collect();
        for (producer, data_source) in offered {
            self.set_up_and_start(id, producer, &data_source);
        }
    }

    /// Sets up the instances of a data source that a session wants and does not have yet; starts
    /// them if the session has started.
    pub(super) fn set_up_and_start(
        &mut self,
        id: SessionId,
        producer_id: ProducerId,
        data_source: &RegisteredDataSource,
    ) {
        let Some(producer) = self.producers.get(&producer_id) else {
            return;
        };
        let admits_user = self.admits_user(producer.link.client().uid);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let is_open = matches!(session.state, State::Configured | State::Started);
        if !is_open || !admits_user {
            return;
        }
        let RegisteredDataSource { number, descriptor } = data_source;
        // Counted with those that the producer is not in: a change of filters may admit it later.
        let entries = session.recording.data_sources_named(&descriptor.name);
        for (ordinal, entry) in entries.iter().enumerate() {
            let exists = session.instances.iter().any(|instance| {
                instance.producer == producer_id
                    && instance.registration == *number
                    && instance.entry == entry.index
            });
            if exists || !entry.admits_producer(&producer.name) {
                continue;
            }
            self.last_instance.0 += 1;
            let instance_id = self.last_instance;
            let buffer = &session.buffers[entry.buffer_index];
            let config = &session.recording.config;
            producer.link.allow(buffer);
            let setup = DataSourceSetup {
                session: id,
                name: descriptor.name.clone(),
                ordinal,
                target_buffer: buffer.id,
                progress: Arc::clone(&buffer.progress),
                exhausted_policy: entry
                    .exhausted_policy
                    .unwrap_or_else(|| buffer.default_policy()),
                stall_limit: entry.stall_limit.unwrap_or(config.wait_limit),
                config: session.recording.data_source_config(entry, id, buffer.id),
            };
            let link = Arc::clone(&producer.calls_to);
            let changed = session.changed_configs.get(&descriptor.name).cloned();
            self.calls.note(move || {
                link.set_up_data_source(instance_id, &setup);
                if let Some(config) = changed {
                    link.change_data_source(instance_id, &config);
                }
            });
            let instance = Instance {
                id: instance_id,
                producer: producer_id,
                producer_name: producer.name.clone(),
                registration: *number,
                descriptor: descriptor.clone(),
                buffer_index: entry.buffer_index,
                entry: entry.index,
                state: InstanceState::Configured,
            };
            session.tell_state(&mut self.calls, &instance, false);
            session
                .extension_descriptors
                .add(&descriptor.extension_descriptors);
            session.instances.push(instance);
            session.instances_ever += 1;
        }
        if session.state == State::Started {
            self.start_instances(id);
        }
    }

    /// Has the instances of a data source do something else, those that are there and those to
    /// come. The configuration in the trace stays as it was.
    pub(super) fn change_data_source(&mut self, id: SessionId, name: &str, config: Arc<[u8]>) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let wanted = session
            .instances
            .iter()
            .filter(|instance| instance.descriptor.name == name && instance.is_wanted());
        for instance in wanted {
            if let Some(producer) = self.producers.get(&instance.producer) {
                let (link, instance_id) = (Arc::clone(&producer.calls_to), instance.id);
                let config = Arc::clone(&config);
                self.calls
                    .note(move || link.change_data_source(instance_id, &config));
            }
        }
        session.changed_configs.insert(name.to_owned(), config);
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
                self.calls.note(move || link.start_data_source(instance_id));
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
            if instance.state == InstanceState::Stopped {
                continue;
            }
            if instance.is_wanted()
                && let Some(producer) = self.producers.get(&instance.producer)
            {
                let (link, instance_id) = (Arc::clone(&producer.calls_to), instance.id);
                self.calls.note(move || link.stop_data_source(instance_id));
            }
            if instance.descriptor.notifies_stop && !immediately {
                instance.state = InstanceState::Stopping;
                continue;
            }
            instance.state = InstanceState::Stopped;
            let instance = &session.instances[index];
            session.tell_state(&mut self.calls, instance, false);
        }
    }

    /// Notes it, once, when every data source of a started session has started.
    pub(super) fn check_all_started(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let all_started = session.instances.iter().all(|instance| {
            !matches!(
                instance.state,
                InstanceState::Starting | InstanceState::Configured
            )
        });
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

    /// Names the data sources that had their time to start, and have not.
    pub(super) fn note_slow_starters(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let names: Vec<DataSourceName> = session
            .instances
            .iter()
            .filter(|instance| instance.state == InstanceState::Starting)
            .map(|instance| DataSourceName {
                producer: instance.producer_name.clone(),
                data_source: instance.descriptor.name.clone(),
            })
            .collect();
        if !names.is_empty() {
            session.note_event(&*self.environment, Event::SlowStartingDataSources(names));
        }
    }

    /// Has data sources begin anew what later packets of theirs build on.
    pub(super) fn clear_incremental_state(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let period_ms = session.recording.config.incremental_state_clear_period_ms;
        for (producer_id, producer) in &self.producers {
            let instances: Vec<_> = session
                .instances
                .iter()
                .filter(|instance| {
                    instance.producer == *producer_id
                        && instance.state == InstanceState::Started
                        && instance.descriptor.clears_incremental_state
                })
                .map(|instance| instance.id)
                .collect();
            if !instances.is_empty() {
                let link = Arc::clone(&producer.calls_to);
                self.calls
                    .note(move || link.clear_incremental_state(&instances));
            }
        }
        self.set_aligned_timer(id, period_ms, Timer::ClearIncrementalState);
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
