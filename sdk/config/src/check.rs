//! Checks of everything but buffers and their targets, in the order in which the service that this
//! crate is compatible with makes them.

use std::collections::HashMap;

use crate::choices::TriggerMode;
use crate::error::ConfigError;
use crate::place::Place;
use crate::session_config::{SessionConfig, Triggers};

const MS_PER_HOUR: u32 = 60 * 60 * 1000;
/// How long a session may last.
const DURATION_MAX_MS: u32 = 7 * 24 * MS_PER_HOUR;
/// How long a session with guardrails may last.
const GUARDED_DURATION_MAX_MS: u32 = 24 * MS_PER_HOUR;
/// What all buffers of a session with guardrails may hold, unless it overrides that with more.
const GUARDED_BUFFERS_MAX_KB: u32 = 128 * 1024;
/// Buffers of a session with guardrails consist of whole pages.
const GUARDED_PAGE_SIZE_KB: u32 = 4;

impl SessionConfig {
    /// Checks what has nothing to do with the buffers.
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
                "{wrong:?} in {name:?} is none of the letters, digits, '-', '_' and '.' allowed"
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
                    .invalid("is missing: no data source has an empty name"));
            }
        }
        // Perfetto's own service writes plain packets where its build cannot compress. Nobody would notice
        // that the configuration was not followed.
        if let Some(remedy) = self.compression.remedy() {
            return Err(Place::ROOT.field("compression").unsupported(remedy));
        }
        if self.output_path.is_some() && !self.write_into_file {
            return Err(Place::ROOT
                .field("output_path")
                .invalid("needs write_into_file beside it"));
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
                    .invalid("is 0: say after how long to give up waiting"));
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
                .invalid("needs the trigger_mode STOP_TRACING"));
        }
        if self.duration_ms != 0 {
            return Err(Place::ROOT.field("duration_ms").invalid(format!(
                "{} ms beside trigger_config: triggers and their timeout say when the session ends",
                self.duration_ms
            )));
        }
        if self.write_into_file && triggers.mode != TriggerMode::Start {
            return Err(Place::ROOT
                .field("write_into_file")
                .invalid("beside trigger_config needs the trigger_mode START_TRACING"));
        }
        triggers.check(&at)
    }

    fn check_guardrails(&self) -> Result<(), ConfigError> {
        if self.deferred_start {
            return Err(Place::ROOT
                .field("deferred_start")
                .invalid("enable_extra_guardrails rules it out"));
        }
        let mut sum_kb = 0;
        for (index, buffer) in self.buffers.iter().enumerate() {
            if buffer.size_kb % GUARDED_PAGE_SIZE_KB != 0 {
                return Err(Place::ROOT
                    .item("buffers", index)
                    .field("size_kb")
                    .invalid(format!(
                        "{} is no multiple of {GUARDED_PAGE_SIZE_KB}, \
                         which enable_extra_guardrails asks for",
                        buffer.size_kb
                    )));
            }
            sum_kb += u64::from(buffer.size_kb);
        }
        let max_kb = GUARDED_BUFFERS_MAX_KB.max(self.guardrail_max_tracing_buffer_size_kb);
        if sum_kb > u64::from(max_kb) {
            return Err(Place::ROOT.field("buffers").invalid(format!(
                "{sum_kb} KiB together are more than the {max_kb} KiB that \
                 enable_extra_guardrails allows: \
                 guardrail_overrides.max_tracing_buffer_size_kb can raise that"
            )));
        }
        Ok(())
    }
}

impl Triggers {
    /// Checks each trigger; `at` is where this is.
    fn check(&self, at: &Place<'_>) -> Result<(), ConfigError> {
        let mut index_of_name = HashMap::new();
        for (index, trigger) in self.triggers.iter().enumerate() {
            let at = at.item("triggers", index);
            if trigger.name.is_empty() {
                return Err(at
                    .field("name")
                    .invalid("is missing: nobody can activate a trigger without one"));
            }
            if let Some(first_index) = index_of_name.insert(trigger.name.as_str(), index) {
                return Err(at.field("name").invalid(format!(
                    "{:?} is the name of triggers[{first_index}]",
                    trigger.name
                )));
            }
            if !(0.0..=1.0).contains(&trigger.skip_probability) {
                return Err(at
                    .field("skip_probability")
                    .invalid(format!("{} is not within 0 to 1", trigger.skip_probability)));
            }
        }
        Ok(())
    }
}

fn too_long(ms: u32, max_ms: u32) -> String {
    format!(
        "{ms} ms are more than the {max_ms} ms ({} hours) allowed",
        max_ms / MS_PER_HOUR
    )
}

const fn is_filename_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}
