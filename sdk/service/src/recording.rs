//! A configuration prepared for the service: target buffers resolved, patterns compiled.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protozero::OwnedMessage as _;
use regex_lite::Regex;

use tracezero_config::{
    ConfigError, LocalChoices, SessionConfig, TriggerMode, data_source_configs, decode_foreign,
};
use tracezero_core::coordination::BufferExhaustedPolicy;
use tracezero_core::ids::{BufferId, SessionId};
use tracezero_core::protos::data_source_config::SessionInitiator;
use tracezero_core::protos::owned;
use tracezero_core::shm::Geometry;

/// The configuration of a session, prepared for the service.
#[derive(Debug)]
pub struct Recording {
    /// The encoded configuration, as it is written into the trace.
    pub(crate) encoded: Arc<[u8]>,
    /// The encoded `DataSourceConfig` of each data source in the configuration.
    source_configs: Arc<[Vec<u8>]>,
    /// The configuration as the service carries it out.
    pub config: SessionConfig,
    /// The geometry of this process's shared memory, if the configuration gives one.
    pub shared_memory: Option<Geometry>,
    /// The directory for crash files, if the session has them.
    pub crash_directory: Option<PathBuf>,
    /// The size of a segment, if the trace is written into segments.
    pub segment_bytes: Option<u64>,
    /// The data sources in the order of the configuration.
    entries: Vec<RecordedDataSource>,
    /// The producers that each trigger is taken from, by the trigger's position in the
    /// configuration; `None` for all producers.
    trigger_producers: Vec<Option<Regex>>,
}

/// The maximum size of the state of a data source that is recorded without being listed, in KiB.
const UNLISTED_STATE_MAX_KIB: u32 = 4096;

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
    pub(crate) state_max_kib: Option<u32>,
    /// The names and patterns of producers that the entry admits. It admits all if both are empty.
    producer_names: Vec<String>,
    producer_patterns: Vec<Regex>,
    /// False if the entry is for other machines, so that it admits no producer.
    is_for_this_machine: bool,
}

impl RecordedDataSource {
    pub(super) fn admits_producer(&self, name: &str) -> bool {
        let is_open = self.producer_names.is_empty() && self.producer_patterns.is_empty();
        let is_named = self.producer_names.iter().any(|other| other == name)
            || self
                .producer_patterns
                .iter()
                .any(|pattern| pattern.is_match(name));
        self.is_for_this_machine && (is_open || is_named)
    }
}

impl Recording {
    /// Prepares a configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration cannot be carried out or contradicts itself.
    pub fn new(message: &owned::TraceConfig, local: &LocalChoices) -> Result<Self, ConfigError> {
        let config = SessionConfig::new(message, local)?;
        Self::prepare(config, &message.encode_to_vec(), local)
    }

    /// Prepares an encoded configuration of another program. Also returns the paths of the fields
    /// that are ignored: see [`ForeignConfig::ignored`](tracezero_config::ForeignConfig::ignored).
    ///
    /// The caller decides whether the session may have the configuration's `output_path` and
    /// `lockdown_mode`.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration cannot be carried out or contradicts itself.
    pub fn foreign(encoded: &[u8]) -> Result<(Self, Vec<String>), ConfigError> {
        let decoded = decode_foreign(encoded)?;
        let recording = Self::prepare(decoded.session, encoded, &LocalChoices::default())?;
        Ok((recording, decoded.ignored))
    }

    /// Returns the encoded configuration.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Prepares a configuration that was made of these bytes.
    fn prepare(
        config: SessionConfig,
        encoded: &[u8],
        local: &LocalChoices,
    ) -> Result<Self, ConfigError> {
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
                    state_max_kib: data_source.state_max_kib,
                    producer_names: data_source.producer_name_filter.clone(),
                    producer_patterns: data_source
                        .producer_name_regex_filter
                        .iter()
                        .enumerate()
                        .map(pattern)
                        .collect::<Result<_, _>>()?,
                    is_for_this_machine: data_source.is_for_this_machine,
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
            encoded: encoded.into(),
            source_configs: data_source_configs(encoded).into(),
            config,
            shared_memory: resolved.shared_memory,
            crash_directory: local.crash_directory.clone(),
            segment_bytes: local.segment_bytes,
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
                state_max_kib: Some(UNLISTED_STATE_MAX_KIB),
                producer_names: Vec::new(),
                producer_patterns: Vec::new(),
                is_for_this_machine: true,
            }];
        }
        listed
    }

    /// Returns the encoded `DataSourceConfig` that a producer gets for an entry: the bytes of the
    /// configuration, with unknown fields, and behind them the fields that the service sets. Of a
    /// field that occurs twice, decoders take the last value.
    pub(super) fn data_source_config(
        &self,
        entry: &RecordedDataSource,
        session: SessionId,
        target_buffer: BufferId,
    ) -> Vec<u8> {
        let listed = self.source_configs.get(entry.index).cloned();
        let mut encoded = listed.unwrap_or_else(|| {
            let name_alone = owned::DataSourceConfig {
                name: Some(entry.name.clone()),
                ..owned::DataSourceConfig::default()
            };
            name_alone.encode_to_vec()
        });
        let config = &self.config;
        let of_service = owned::DataSourceConfig {
            target_buffer: Some(u32::from(target_buffer.0)),
            trace_duration_ms: Some(config.duration_ms),
            tracing_session_id: Some(session.value()),
            enable_extra_guardrails: Some(config.enable_extra_guardrails),
            stop_timeout_ms: Some(config.data_source_stop_timeout_ms),
            // Always set, so that no consumer can pretend to be trusted.
            session_initiator: Some(SessionInitiator::UNSPECIFIED),
            // Not set if it is false: Perfetto's SDK compares the configuration that it started with
            // to this one, and expects the service to set only the fields above.
            prefer_suspend_clock_for_duration: config
                .prefer_suspend_clock_for_duration
                .then_some(true),
            ..owned::DataSourceConfig::default()
        };
        encoded.extend(of_service.encode_to_vec());
        encoded
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
            encoded: Arc::clone(&self.encoded),
            source_configs: Arc::clone(&self.source_configs),
            config: self.config.clone(),
            shared_memory: self.shared_memory,
            crash_directory: self.crash_directory.clone(),
            segment_bytes: self.segment_bytes,
            entries,
            trigger_producers: self.trigger_producers.clone(),
        }
    }

    /// Returns the fields of a data source's configuration that are meant for the data source. Of
    /// several entries with this name, takes the first. `None` if there is none.
    pub(super) fn fields_for_source(&self, name: &str) -> Option<Vec<u8>> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        self.source_configs
            .get(entry.index)
            .map(|it| fields_for_source(it))
    }

    /// Returns the names of the data sources, each once.
    pub(super) fn source_names(&self) -> BTreeSet<&str> {
        self.entries
            .iter()
            .map(|entry| entry.name.as_str())
            .collect()
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

/// Returns those fields of an encoded `DataSourceConfig` that are meant for the data source.
fn fields_for_source(config: &[u8]) -> Vec<u8> {
    /// The fields below are the service's.
    const FIRST: u32 = 100;
    let mut fields = protozero::Decoder::new(config).fields();
    let mut own = Vec::new();
    let mut begin = 0;
    while let Some(Ok(field)) = fields.next() {
        let end = fields.offset();
        if field.number >= FIRST {
            own.extend_from_slice(&config[begin..end]);
        }
        begin = end;
    }
    own
}

/// Compiles a pattern that must match whole names.
fn whole_match(field: String, regex: &str) -> Result<Regex, ConfigError> {
    Regex::new(&format!("^(?:{regex})$")).map_err(|error| ConfigError::Invalid {
        field,
        reason: format!("{regex:?} is not a regular expression: {error}"),
    })
}
