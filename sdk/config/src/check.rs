//! Checks of all fields except the buffers and the data sources' target buffers, which
//! `resolve.rs` checks. The order of the checks is that of Perfetto's own service.

use std::collections::HashMap;

use crate::choices::TriggerMode;
use crate::error::ConfigError;
use crate::place::Place;
use crate::session_config::{SessionConfig, Triggers};

const MS_PER_HOUR: u32 = 60 * 60 * 1000;
/// The longest duration of a session.
const DURATION_MAX_MS: u32 = 7 * 24 * MS_PER_HOUR;
/// The longest duration of a session with guardrails: Perfetto's limits for sessions on users'
/// devices.
const GUARDED_DURATION_MAX_MS: u32 = 24 * MS_PER_HOUR;
/// The largest total size of the buffers of a session with guardrails. The session's configuration
/// can raise this limit.
const GUARDED_BUFFERS_MAX_KB: u32 = 128 * 1024;
/// In a session with guardrails, the size of each buffer must be a multiple of this size.
const GUARDED_PAGE_SIZE_KB: u32 = 4;

impl SessionConfig {
    /// Checks all fields except the buffers and the data sources' target buffers.
    pub(crate) fn check_session(&self) -> Result<(), ConfigError> {
        let duration_max_ms = if self.enable_extra_guardrails {
            GUARDED_DURATION_MAX_MS
        } else {
            DURATION_MAX_MS
        };
        if self.duration_ms > duration_max_ms {
            return Err(Place::ROOT
                .field("duration_ms")
                .invalid(too_long(self.duration_ms, duration_max_ms)));
        }
        if let Some(triggers) = &self.triggers {
            self.check_with_triggers(triggers, duration_max_ms)?;
        }
        if let Some(name) = &self.bugreport_filename
            && let Some(wrong) = name.chars().find(|&c| !is_filename_char(c))
        {
            return Err(Place::ROOT.field("bugreport_filename").invalid(format!(
                "{wrong:?} in {name:?} is not allowed; use letters, digits, '-', '_' and '.'"
            )));
        }
        if self.enable_extra_guardrails {
            self.check_guardrails()?;
        }
        for (index, data_source) in self.data_sources.iter().enumerate() {
            let at = Place::ROOT.item("data_sources", index);
            let at = at.field("config");
            if data_source.name.is_empty() {
                return Err(at
                    .field("name")
                    .invalid("is missing; give the name of a data source"));
            }
        }
        // Refuse a compression that this build lacks. Perfetto's own service writes uncompressed
        // packets in this case, but then the user does not learn that the configuration was not
        // followed.
        if let Some(remedy) = self.compression.remedy() {
            return Err(Place::ROOT.field("compression").unsupported(remedy));
        }
        if self.output_path.is_some() && !self.write_into_file {
            return Err(Place::ROOT
                .field("output_path")
                .invalid("is set without write_into_file; set both"));
        }
        Ok(())
    }

    fn check_with_triggers(
        &self,
        triggers: &Triggers,
        timeout_max_ms: u32,
    ) -> Result<(), ConfigError> {
        let at = Place::ROOT.field("trigger_config");
        match triggers.trigger_timeout_ms {
            0 => {
                return Err(at
                    .field("trigger_timeout_ms")
                    .invalid("is 0; give at least 1"));
            }
            timeout_ms if timeout_ms > timeout_max_ms => {
                return Err(at
                    .field("trigger_timeout_ms")
                    .invalid(too_long(timeout_ms, timeout_max_ms)));
            }
            _ => {}
        }
        if triggers.use_clone_snapshot_if_available && triggers.mode != TriggerMode::Stop {
            return Err(at
                .field("use_clone_snapshot_if_available")
                .invalid("needs the trigger_mode STOP_TRACING; set that, or leave it out"));
        }
        if self.duration_ms != 0 {
            return Err(Place::ROOT.field("duration_ms").invalid(format!(
                "is {} together with trigger_config; leave it out and set trigger_timeout_ms",
                self.duration_ms
            )));
        }
        if self.write_into_file && triggers.mode != TriggerMode::Start {
            return Err(Place::ROOT.field("write_into_file").invalid(
                "is set together with trigger_config; use the trigger_mode START_TRACING",
            ));
        }
        triggers.check(&at)
    }

    fn check_guardrails(&self) -> Result<(), ConfigError> {
        if self.deferred_start {
            return Err(Place::ROOT
                .field("deferred_start")
                .invalid("is not allowed with enable_extra_guardrails; leave one of them out"));
        }
        let mut sum_kb = 0;
        for (index, buffer) in self.buffers.iter().enumerate() {
            if buffer.size_kb % GUARDED_PAGE_SIZE_KB != 0 {
                return Err(Place::ROOT
                    .item("buffers", index)
                    .field("size_kb")
                    .invalid(format!(
                        "{} is not a multiple of {GUARDED_PAGE_SIZE_KB}, \
                         as enable_extra_guardrails requires; round it up",
                        buffer.size_kb
                    )));
            }
            sum_kb += u64::from(buffer.size_kb);
        }
        let max_kb = GUARDED_BUFFERS_MAX_KB.max(self.guardrail_max_tracing_buffer_size_kb);
        if sum_kb > u64::from(max_kb) {
            return Err(Place::ROOT.field("buffers").invalid(format!(
                "{sum_kb} KiB in all are more than the {max_kb} KiB that \
                 enable_extra_guardrails allows; \
                 raise guardrail_overrides.max_tracing_buffer_size_kb"
            )));
        }
        Ok(())
    }
}

impl Triggers {
    /// Checks each trigger. `at` is the place of the message in the configuration.
    fn check(&self, at: &Place<'_>) -> Result<(), ConfigError> {
        let mut index_of_name = HashMap::new();
        for (index, trigger) in self.triggers.iter().enumerate() {
            let at = at.item("triggers", index);
            if trigger.name.is_empty() {
                return Err(at
                    .field("name")
                    .invalid("is missing; give each trigger a name"));
            }
            if let Some(first_index) = index_of_name.insert(trigger.name.as_str(), index) {
                return Err(at.field("name").invalid(format!(
                    "{:?} is already the name of triggers[{first_index}]; rename one of them",
                    trigger.name
                )));
            }
            if !(0.0..=1.0).contains(&trigger.skip_probability) {
                return Err(at.field("skip_probability").invalid(format!(
                    "{} is not within 0 to 1; give a probability",
                    trigger.skip_probability
                )));
            }
        }
        Ok(())
    }
}

fn too_long(ms: u32, max_ms: u32) -> String {
    format!(
        "{ms} ms is more than the limit of {max_ms} ms ({} hours)",
        max_ms / MS_PER_HOUR
    )
}

const fn is_filename_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}
