//! A configuration prepared for the service: target buffers resolved, patterns compiled.

use std::path::PathBuf;
use std::time::Duration;

use protozero::OwnedMessage as _;
use regex_lite::Regex;

use tracezero_config::{ConfigError, LocalChoices, SessionConfig, TriggerMode};
use tracezero_core::coordination::BufferExhaustedPolicy;
use tracezero_core::ids::{BufferId, SessionId};
use tracezero_core::protos::data_source_config::BufferExhaustedPolicy as Policy;
use tracezero_core::protos::owned;
use tracezero_core::shm::Geometry;

/// The configuration of a session, prepared for the service.
#[derive(Debug)]
pub struct Recording {
    /// The configuration as it is written into the trace.
    pub(crate) message: owned::TraceConfig,
    /// The configuration as the service carries it out.
    pub config: SessionConfig,
    /// The geometry of this process's shared memory, if the configuration gives one.
    pub shared_memory: Option<Geometry>,
    /// The directory for crash files, if the session has them.
    pub crash_directory: Option<PathBuf>,
    /// The data sources in the order of the configuration.
    entries: Vec<RecordedDataSource>,
    /// The producers that each trigger is taken from, by the trigger's position in the
    /// configuration; `None` for all producers.
    trigger_producers: Vec<Option<Regex>>,
}

/// The entry for one data source in a configuration.
#[derive(Clone, Debug)]
pub(crate) struct RecordedDataSource {
    /// The position in the configuration. Data sources that are recorded without being listed have
    /// the position behind the last.
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) buffer_index: usize,
    pub(crate) exhausted_policy: Option<BufferExhaustedPolicy>,
    pub(crate) stall_limit: Option<Duration>,
    /// The names and patterns of producers that the entry admits. It admits all if both are empty.
    producer_names: Vec<String>,
    producer_patterns: Vec<Regex>,
}

impl RecordedDataSource {
    pub(super) fn admits_producer(&self, name: &str) -> bool {
        let is_open = self.producer_names.is_empty() && self.producer_patterns.is_empty();
        is_open
            || self.producer_names.iter().any(|other| other == name)
            || self
                .producer_patterns
                .iter()
                .any(|pattern| pattern.is_match(name))
    }
}

impl Recording {
    /// Prepares a configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration cannot be carried out or contradicts itself.
    pub fn new(message: owned::TraceConfig, local: &LocalChoices) -> Result<Self, ConfigError> {
        let config = SessionConfig::new(&message, local)?;
        let resolved = config.resolve()?;
        let entries = config
            .data_sources
            .iter()
            .zip(resolved.target_buffers)
            .enumerate()
            .map(|(index, (data_source, buffer_index))| {
                let pattern = |(position, regex): (usize, &String)| {
                    let place = format!("data_sources[{index}].producer_name_regex_filter");
                    whole_match(format!("{place}[{position}]"), regex)
                };
                Ok(RecordedDataSource {
                    index,
                    name: data_source.name.clone(),
                    buffer_index,
                    exhausted_policy: data_source.exhausted_policy,
                    stall_limit: data_source.stall_limit,
                    producer_names: data_source.producer_name_filter.clone(),
                    producer_patterns: data_source
                        .producer_name_regex_filter
                        .iter()
                        .enumerate()
                        .map(pattern)
                        .collect::<Result<_, _>>()?,
                })
            })
            .collect::<Result<_, ConfigError>>()?;
        let triggers = config.triggers.iter().flat_map(|config| &config.triggers);
        let trigger_producers = triggers
            .enumerate()
            .map(
                |(index, trigger)| match trigger.producer_name_regex.as_str() {
                    "" => Ok(None),
                    regex => {
                        let field = format!("trigger_config.triggers[{index}].producer_name_regex");
                        whole_match(field, regex).map(Some)
                    }
                },
            )
            .collect::<Result<_, _>>()?;
        Ok(Self {
            message,
            config,
            shared_memory: resolved.shared_memory,
            crash_directory: local.crash_directory.clone(),
            entries,
            trigger_producers,
        })
    }

    /// Returns the entries for the data source `name`. If it is not listed and the session records
    /// everything, returns an entry made for it.
    pub(super) fn data_sources_named(&self, name: &str) -> Vec<RecordedDataSource> {
        let listed: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.name == name)
            .cloned()
            .collect();
        if listed.is_empty() && self.config.records_all {
            return vec![RecordedDataSource {
                index: self.entries.len(),
                name: name.to_owned(),
                buffer_index: 0,
                exhausted_policy: None,
                stall_limit: None,
                producer_names: Vec::new(),
                producer_patterns: Vec::new(),
            }];
        }
        listed
    }

    /// Returns the serialized `DataSourceConfig` that a producer gets for an entry.
    pub(super) fn data_source_config(
        &self,
        entry: &RecordedDataSource,
        session: SessionId,
        target_buffer: BufferId,
    ) -> Vec<u8> {
        let listed = self.config.data_sources.get(entry.index);
        let config = owned::DataSourceConfig {
            name: Some(entry.name.clone()),
            target_buffer: Some(u32::from(target_buffer.0)),
            target_buffer_name: listed.and_then(|source| source.target_name.clone()),
            buffer_exhausted_policy: entry.exhausted_policy.map(|policy| match policy {
                BufferExhaustedPolicy::Drop => Policy::BUFFER_EXHAUSTED_DROP,
                // Both stalling policies are the same here: the packet is dropped and counted at
                // the end of the stall, and the process is never aborted.
                BufferExhaustedPolicy::Stall | BufferExhaustedPolicy::StallThenDrop => {
                    Policy::BUFFER_EXHAUSTED_STALL_THEN_DROP
                }
            }),
            trace_duration_ms: Some(self.config.duration_ms),
            tracing_session_id: Some(session.value()),
            enable_extra_guardrails: Some(self.config.enable_extra_guardrails),
            stop_timeout_ms: Some(self.config.data_source_stop_timeout_ms),
            ..listed.map_or_else(owned::DataSourceConfig::default, |source| {
                source.source_specific.clone()
            })
        };
        config.encode_to_vec()
    }

    /// Returns this recording with the producer filters of `other`. The n-th entry of a name takes
    /// the filters of the n-th entry of that name in `other`.
    pub(super) fn with_filters_of(&self, other: &Self) -> Self {
        let mut entries = self.entries.clone();
        for (index, entry) in entries.iter_mut().enumerate() {
            let is_same = |other: &&RecordedDataSource| other.name == entry.name;
            let ordinal = self.entries[..index].iter().filter(is_same).count();
            if let Some(changed) = other.entries.iter().filter(is_same).nth(ordinal) {
                entry.producer_names.clone_from(&changed.producer_names);
                entry
                    .producer_patterns
                    .clone_from(&changed.producer_patterns);
            }
        }
        Self {
            message: self.message.clone(),
            config: self.config.clone(),
            shared_memory: self.shared_memory,
            crash_directory: self.crash_directory.clone(),
            entries,
            trigger_producers: self.trigger_producers.clone(),
        }
    }

    /// Returns the name that no other session may have at the same time, if there is one.
    pub(super) fn unique_name(&self) -> Option<&str> {
        let name = self.config.unique_session_name.as_deref();
        name.filter(|name| !name.is_empty())
    }

    /// Returns what triggers do in this session; `None` if it has none.
    pub(super) fn trigger_mode(&self) -> Option<TriggerMode> {
        Some(self.config.triggers.as_ref()?.effective_mode())
    }

    /// Returns true if a hit of the trigger at position `index` counts when this producer reports
    /// it.
    pub(super) fn trigger_admits_producer(&self, index: usize, name: &str) -> bool {
        match self.trigger_producers.get(index) {
            Some(Some(pattern)) => pattern.is_match(name),
            Some(None) | None => true,
        }
    }

    /// Returns the time in milliseconds after which the session ends; `None` if it does not end by
    /// itself.
    pub(super) fn duration_ms(&self) -> Option<u64> {
        let duration_ms = match (&self.config.triggers, self.trigger_mode()) {
            (Some(triggers), Some(TriggerMode::Stop | TriggerMode::CloneSnapshot)) => {
                triggers.trigger_timeout_ms
            }
            _ => self.config.duration_ms,
        };
        Some(u64::from(duration_ms)).filter(|&duration_ms| duration_ms > 0)
    }
}

/// Compiles a pattern that must match whole names.
fn whole_match(field: String, regex: &str) -> Result<Regex, ConfigError> {
    Regex::new(&format!("^(?:{regex})$")).map_err(|error| ConfigError::Invalid {
        field,
        reason: format!("{regex:?} is not a regular expression: {error}"),
    })
}
