//! `TriggerConfig` and its triggers.

use super::super::place::Place;
use super::super::{ConfigError, Trigger, TriggerConfig, TriggerMode};
use super::field::MessageAt;
use tracezero_core::protos::trace_config::TriggerConfig as Schema;
use tracezero_core::protos::trace_config::trigger_config::Trigger as TriggerSchema;

/// What has been read of a `TriggerConfig`.
#[derive(Default)]
pub(super) struct TriggersRead {
    mode: Option<TriggerMode>,
    triggers: Vec<Trigger>,
    trigger_timeout_ms: u32,
    use_clone_snapshot_if_available: bool,
}

/// Modes by number.
const MODES: [(i32, Option<TriggerMode>); 4] = [
    (0, None),
    (TriggerMode::Start as i32, Some(TriggerMode::Start)),
    (TriggerMode::Stop as i32, Some(TriggerMode::Stop)),
    (
        TriggerMode::CloneSnapshot as i32,
        Some(TriggerMode::CloneSnapshot),
    ),
];

impl TriggersRead {
    pub(super) fn read(&mut self, message: MessageAt<'_, '_>) -> Result<(), ConfigError> {
        message.read("TriggerConfig", |field| {
            match field.number() {
                Schema::TRIGGER_MODE_FIELD_NUMBER => {
                    self.mode = field.choice("trigger_mode", &MODES)?;
                }
                Schema::TRIGGERS_FIELD_NUMBER => {
                    let message = field.item("triggers", self.triggers.len())?;
                    self.triggers.push(trigger(&message)?);
                }
                Schema::TRIGGER_TIMEOUT_MS_FIELD_NUMBER => {
                    self.trigger_timeout_ms = field.u32("trigger_timeout_ms")?;
                }
                Schema::USE_CLONE_SNAPSHOT_IF_AVAILABLE_FIELD_NUMBER => {
                    self.use_clone_snapshot_if_available =
                        field.bool("use_clone_snapshot_if_available")?;
                }
                _ => return Err(field.refuse()),
            }
            Ok(())
        })
    }

    /// `None` if the message says nothing.
    pub(super) fn finish(self, at: &Place<'_>) -> Result<Option<TriggerConfig>, ConfigError> {
        let says_nothing = self.triggers.is_empty()
            && self.trigger_timeout_ms == 0
            && !self.use_clone_snapshot_if_available;
        match self.mode {
            Some(mode) => Ok(Some(TriggerConfig {
                mode,
                triggers: self.triggers,
                trigger_timeout_ms: self.trigger_timeout_ms,
                use_clone_snapshot_if_available: self.use_clone_snapshot_if_available,
            })),
            None if says_nothing => Ok(None),
            None => Err(at.field("trigger_mode").invalid(
                "is missing: say what the triggers do, \
                 START_TRACING, STOP_TRACING or CLONE_SNAPSHOT",
            )),
        }
    }
}

fn trigger(message: &MessageAt<'_, '_>) -> Result<Trigger, ConfigError> {
    let mut trigger = Trigger::new("");
    message.read("Trigger", |field| {
        match field.number() {
            TriggerSchema::NAME_FIELD_NUMBER => trigger.name = field.string("name")?,
            TriggerSchema::PRODUCER_NAME_REGEX_FIELD_NUMBER => {
                trigger.producer_name_regex = field.string("producer_name_regex")?;
            }
            TriggerSchema::STOP_DELAY_MS_FIELD_NUMBER => {
                trigger.stop_delay_ms = field.u32("stop_delay_ms")?;
            }
            TriggerSchema::MAX_PER_24_H_FIELD_NUMBER => {
                trigger.max_per_24_h = field.u32("max_per_24_h")?;
            }
            TriggerSchema::SKIP_PROBABILITY_FIELD_NUMBER => {
                trigger.skip_probability = field.f64("skip_probability")?;
            }
            _ => return Err(field.refuse()),
        }
        Ok(())
    })?;
    Ok(trigger)
}
