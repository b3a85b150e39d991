//! Instances: data sources of producers in the sessions that record them.

use std::sync::Arc;

use super::context::{Context, Effect};
use super::instance::{Instance, InstanceState, RegisteredDataSource};
use super::lifecycle_events::{DataSourceName, Event, NAMES_MAX};
use super::phase::Phase;
use super::timers::Timer;
use super::tracing_session::{SessionOwner, TracingSession};
use tracezero_core::coordination::DataSourceSetup;
use tracezero_core::ids::{InstanceId, ProducerId};
use tracezero_core::small_map::SmallMap;

/// The maximum number of instances that a session may have at once.
const INSTANCES_PER_SESSION_MAX: usize = 16_384;

impl TracingSession {
    /// Stops and removes instances whose data source or producer is gone.
    pub(super) fn remove_instances(
        &mut self,
        context: &mut Context<'_>,
        is_gone: impl Fn(&Instance) -> bool,
    ) {
        let removed: Vec<Instance> = self
            .instances
            .extract_if(.., |instance| is_gone(instance))
            .collect();
        if removed.is_empty() {
            return;
        }
        for instance in &removed {
            self.set_up.remove(&(instance.registration, instance.entry));
            if instance.is_wanted() {
                stop(context, instance);
            }
            if !instance.is_over() {
                tell_owner(context, &self.owner, instance, false);
            }
        }
        self.check_all_started(context);
        self.check_all_stopped(context);
    }

    /// Sets up those data sources of all producers that the session wants and does not have yet.
    pub(super) fn set_up_all(&mut self, context: &mut Context<'_>) {
        for (&id, producer) in context.producers.iter() {
            for data_source in &producer.data_sources {
                self.set_up_and_start(context, id, data_source);
            }
        }
    }

    /// Sets up those instances of a data source that the session wants and does not have yet.
    /// Starts them if the session has started.
    pub(super) fn set_up_and_start(
        &mut self,
        context: &mut Context<'_>,
        producer_id: ProducerId,
        data_source: &RegisteredDataSource,
    ) {
        let Some(producer) = context.producers.get(&producer_id) else {
            return;
        };
        let uid = producer.link.client().uid;
        let is_locked_out = context.only_uid.is_some_and(|only| uid != Some(only));
        if self.phase.end().is_some() || is_locked_out {
            return;
        }
        let RegisteredDataSource { number, descriptor } = data_source;
        // The ordinal also counts entries that do not admit the producer: changed filters may admit
        // it later.
        let first_new = self.instances.len();
        let entries = self.recording.data_sources_named(&descriptor.name);
        for (ordinal, entry) in entries.iter().enumerate() {
            let exists = self.set_up.contains(&(*number, entry.index));
            if exists || !entry.admits_producer(&producer.name) {
                continue;
            }
            let admits_schema =
                (self.extension_descriptors).admits(&descriptor.extension_descriptors);
            if self.instances.len() >= INSTANCES_PER_SESSION_MAX || !admits_schema {
                self.instances_refused += 1;
                (context.effects).push(Effect::InstanceRefused(producer_id));
                continue;
            }
            context.last_instance.0 += 1;
            let instance_id = *context.last_instance;
            let buffer = &self.buffers[entry.buffer_index];
            let config = &self.recording.config;
            producer.link.allow(buffer);
            let program = &descriptor.protovm_program;
            if let Some(limit_kib) = entry.state_max_kib
                && !program.is_empty()
                && !buffer.keep_state(producer_id, &descriptor.name, program, limit_kib)
            {
                (context.effects).push(Effect::ProgramRefused(producer_id));
            }
            let setup = DataSourceSetup {
                session: context.session,
                name: descriptor.name.clone(),
                ordinal,
                target_buffer: buffer.id,
                progress: Arc::clone(&buffer.progress),
                exhausted_policy: entry
                    .exhausted_policy
                    .unwrap_or_else(|| buffer.default_policy()),
                stall_limit: entry.stall_limit.unwrap_or(config.wait_limit),
                memory_sizes: config.memory_sizes_of(&producer.name),
                clears_incremental_state: descriptor.clears_incremental_state,
                config: self
                    .recording
                    .data_source_config(entry, context.session, buffer.id),
            };
            let changed = self.changed_configs.get(&descriptor.name).cloned();
            context.set_up(producer, instance_id, setup, changed);
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
            tell_owner(context, &self.owner, &instance, false);
            let descriptors = &descriptor.extension_descriptors;
            let is_new = self.extension_descriptors.add(descriptors);
            if is_new {
                self.append_to_preamble(context.environment, |packets| {
                    packets.extension_descriptor(descriptors);
                });
            }
            self.set_up.insert((*number, entry.index));
            self.instances.push(instance);
            self.instances_ever += 1;
        }
        if self.is_started() {
            self.start_instances(context, first_new);
        }
    }

    /// Changes the configuration that present and later instances of a data source get. The
    /// configuration in the trace does not change.
    pub(super) fn change_data_source(
        &mut self,
        context: &mut Context<'_>,
        name: &str,
        config: Arc<[u8]>,
    ) {
        for instance in &self.instances {
            if instance.descriptor.name == name && instance.is_wanted() {
                let (id, config) = (instance.id, Arc::clone(&config));
                context.call_producer(instance.producer, move |producer| {
                    producer.change_data_source(id, &config);
                });
            }
        }
        self.changed_configs.insert(name.to_owned(), config);
    }

    /// Starts the instances that are set up and not started, from the position `first` on.
    pub(super) fn start_instances(&mut self, context: &mut Context<'_>, first: usize) {
        for instance in &mut self.instances[first..] {
            if instance.state != InstanceState::Configured {
                continue;
            }
            let id = instance.id;
            context.call_producer(instance.producer, move |producer| {
                producer.start_data_source(id);
            });
            if instance.descriptor.notifies_start {
                instance.state = InstanceState::Starting;
            } else {
                instance.state = InstanceState::Started;
                tell_owner(context, &self.owner, instance, true);
            }
        }
        self.check_all_started(context);
    }

    /// Notes that a producer has started or stopped an instance as it was asked to. Does nothing if
    /// the session has no such instance.
    pub(super) fn instance_answered(
        &mut self,
        context: &mut Context<'_>,
        producer: ProducerId,
        id: InstanceId,
        is_started: bool,
    ) {
        let (asked, reached) = match is_started {
            true => (InstanceState::Starting, InstanceState::Started),
            false => (InstanceState::Stopping, InstanceState::Stopped),
        };
        let Some(place) = self.place_of(id) else {
            return;
        };
        let instance = &mut self.instances[place];
        if (instance.producer, instance.state) == (producer, asked) {
            instance.state = reached;
            tell_owner(context, &self.owner, instance, is_started);
            self.check_all_started(context);
            self.check_all_stopped(context);
        }
    }

    /// Notes that a producer could not set up an instance. Nothing waits for it any more, and the trace
    /// names it among the data sources that have not started.
    pub(super) fn instance_failed(&mut self, context: &mut Context<'_>, id: InstanceId) {
        let Some(place) = self.place_of(id) else {
            return;
        };
        let instance = &mut self.instances[place];
        if instance.is_over() {
            return;
        }
        instance.state = InstanceState::Failed;
        tell_owner(context, &self.owner, instance, false);
        self.instances_refused += 1;
        let names = self.names_of(|instance| instance.state == InstanceState::Failed);
        self.note_event(context.environment, Event::SlowStartingDataSources(names));
        self.check_all_started(context);
        self.check_all_stopped(context);
    }

    /// Returns the place of an instance.
    fn place_of(&self, id: InstanceId) -> Option<usize> {
        // Instances are in the order of their ids.
        let place = self.instances.binary_search_by_key(&id, |it| it.id);
        place.ok()
    }

    /// Stops all instances. An instance that reports when it has stopped counts as stopping until
    /// then, unless `immediately` is true.
    pub(super) fn stop_instances(&mut self, context: &mut Context<'_>, immediately: bool) {
        for instance in &mut self.instances {
            if instance.is_over() {
                continue;
            }
            if instance.is_wanted() {
                stop(context, instance);
            }
            if instance.descriptor.notifies_stop && !immediately {
                instance.state = InstanceState::Stopping;
            } else {
                instance.state = InstanceState::Stopped;
                tell_owner(context, &self.owner, instance, false);
            }
        }
    }

    /// Notes the event, once, that every data source of a started session has started.
    fn check_all_started(&mut self, context: &mut Context<'_>) {
        let is_started = |instance: &Instance| {
            !matches!(
                instance.state,
                InstanceState::Starting | InstanceState::Configured
            )
        };
        if let Phase::Started { all_started } = &mut self.phase
            && !*all_started
            && self.instances.iter().all(is_started)
        {
            *all_started = true;
            context.cancel_timers(|timer| *timer == Timer::SlowStart);
            self.note_event(context.environment, Event::AllDataSourcesStarted);
            context.call_owner(&self.owner, |owner| owner.all_data_sources_started());
        }
    }

    /// Notes the names of the data sources that did not start in time.
    pub(super) fn note_slow_starters(&mut self, context: &Context<'_>) {
        let names = self.names_of(|instance| instance.state == InstanceState::Starting);
        if !names.is_empty() {
            self.note_event(context.environment, Event::SlowStartingDataSources(names));
        }
    }

    /// Asks data sources to start their incremental state anew, and sets the timer for the next time.
    pub(super) fn clear_incremental_state(&mut self, context: &mut Context<'_>) {
        self.ask_to_clear_incremental_state(context);
        let period_ms = self.recording.config.incremental_state_clear_period_ms;
        context.set_aligned_timer(period_ms, Timer::ClearIncrementalState);
    }

    /// Asks data sources to start their incremental state anew.
    pub(super) fn ask_to_clear_incremental_state(&self, context: &mut Context<'_>) {
        let asked = self.instances_by_producer(|instance| {
            instance.state == InstanceState::Started && instance.descriptor.clears_incremental_state
        });
        for (producer, instances) in asked {
            context.call_producer(producer, move |to| to.clear_incremental_state(&instances));
        }
    }

    pub(super) fn instances_by_producer(
        &self,
        is_meant: impl Fn(&Instance) -> bool,
    ) -> SmallMap<ProducerId, Vec<InstanceId>> {
        let mut found = SmallMap::<_, Vec<_>>::new();
        for instance in self.instances.iter().filter(|it| is_meant(it)) {
            found.or_default(instance.producer).push(instance.id);
        }
        found
    }

    /// Returns names for an event, which lists only some of them. Producers choose how many instances
    /// are meant.
    pub(super) fn names_of(&self, is_meant: impl Fn(&Instance) -> bool) -> Vec<DataSourceName> {
        let meant = self.instances.iter().filter(|instance| is_meant(instance));
        meant
            .take(NAMES_MAX)
            .map(|instance| DataSourceName {
                producer: instance.producer_name.clone(),
                data_source: instance.descriptor.name.clone(),
            })
            .collect()
    }
}

fn stop(context: &mut Context<'_>, instance: &Instance) {
    let id = instance.id;
    context.call_producer(instance.producer, move |producer| {
        producer.stop_data_source(id);
    });
}

/// Tells the owner of the session that an instance has started or stopped.
fn tell_owner(
    context: &mut Context<'_>,
    owner: &Arc<dyn SessionOwner>,
    instance: &Instance,
    is_started: bool,
) {
    let producer_name = instance.producer_name.clone();
    let data_source = instance.descriptor.name.clone();
    context.call_owner(owner, move |owner| {
        owner.data_source_changed(&producer_name, &data_source, is_started);
    });
}
