//! `DataSource`, and the `DataSourceConfig` in it.

use super::super::place::Place;
use super::super::{BufferExhaustedPolicy, ConfigError, DataSourceConfig};
use super::field::{FieldAt, MessageAt, read_message};
use tracezero_core::protos::DataSourceConfig as ConfigSchema;
use tracezero_core::protos::TrackEventConfig as TrackEventSchema;
use tracezero_core::protos::trace_config::DataSource as Schema;

/// Fields from this number on are for the data source alone.
const SOURCE_SPECIFIC_FROM: u32 = 100;
/// The one machine that there is.
const HOST: &str = "host";

const POLICIES: [(i32, Option<BufferExhaustedPolicy>); 4] = [
    (0, None),
    (1, Some(BufferExhaustedPolicy::Drop)),
    (2, Some(BufferExhaustedPolicy::Stall)),
    (3, Some(BufferExhaustedPolicy::StallThenDrop)),
];

/// Reads a `DataSource`.
pub(super) fn data_source(message: &MessageAt<'_, '_>) -> Result<DataSourceConfig, ConfigError> {
    let mut source = DataSourceConfig::new("");
    let mut machine_count = 0;
    message.read("DataSource", |field| {
        match field.number() {
            Schema::CONFIG_FIELD_NUMBER => config(&mut source, &field.message("config")?)?,
            Schema::PRODUCER_NAME_FILTER_FIELD_NUMBER => {
                let name = field.string("producer_name_filter")?;
                source.producer_name_filter.push(name);
            }
            Schema::PRODUCER_NAME_REGEX_FILTER_FIELD_NUMBER => {
                let regex = field.string("producer_name_regex_filter")?;
                source.producer_name_regex_filter.push(regex);
            }
            Schema::MACHINE_NAME_FILTER_FIELD_NUMBER => {
                let machine = field.string("machine_name_filter")?;
                if machine != HOST {
                    let at = message.at.item("machine_name_filter", machine_count);
                    return Err(at.invalid(format!(
                        "the machine {machine:?} is not supported: there is only {HOST:?}"
                    )));
                }
                machine_count += 1;
            }
            _ => return Err(field.refuse()),
        }
        Ok(())
    })?;
    Ok(source)
}

fn config(source: &mut DataSourceConfig, message: &MessageAt<'_, '_>) -> Result<(), ConfigError> {
    message.read("DataSourceConfig", |field| {
        match field.number() {
            ConfigSchema::NAME_FIELD_NUMBER => source.name = field.string("name")?,
            ConfigSchema::TARGET_BUFFER_FIELD_NUMBER => {
                source.target_index = Some(field.u32("target_buffer")? as usize);
            }
            ConfigSchema::TARGET_BUFFER_NAME_FIELD_NUMBER => {
                source.target_name = field.name("target_buffer_name")?;
            }
            ConfigSchema::BUFFER_EXHAUSTED_POLICY_FIELD_NUMBER => {
                source.exhausted_policy = field.choice("buffer_exhausted_policy", &POLICIES)?;
            }
            // The service's own values take their place.
            ConfigSchema::TRACE_DURATION_MS_FIELD_NUMBER
            | ConfigSchema::TRACING_SESSION_ID_FIELD_NUMBER
            | ConfigSchema::ENABLE_EXTRA_GUARDRAILS_FIELD_NUMBER
            | ConfigSchema::STOP_TIMEOUT_MS_FIELD_NUMBER
            | ConfigSchema::SESSION_INITIATOR_FIELD_NUMBER
            | ConfigSchema::PREFER_SUSPEND_CLOCK_FOR_DURATION_FIELD_NUMBER => {}
            _ => {
                check_source_specific_field(field)?;
                source.source_specific.extend(field.encoded());
            }
        }
        Ok(())
    })
}

/// Checks encoded fields that are handed to a data source; `at` is where its configuration is.
pub(in super::super) fn check_source_specific(
    fields: &[u8],
    at: &Place<'_>,
) -> Result<(), ConfigError> {
    read_message("DataSourceConfig", fields, at, check_source_specific_field)
}

fn check_source_specific_field(field: FieldAt<'_, '_>) -> Result<(), ConfigError> {
    match field.number() {
        ConfigSchema::TRACK_EVENT_CONFIG_FIELD_NUMBER => field
            .message("track_event_config")?
            .read("TrackEventConfig", check_track_event_field),
        ConfigSchema::INTERCEPTOR_CONFIG_FIELD_NUMBER
        | ConfigSchema::PREFER_SUSPEND_CLOCK_FOR_DURATION_FIELD_NUMBER => Err(field.refuse()),
        SOURCE_SPECIFIC_FROM.. => Ok(()),
        _ => Err(field.refuse()),
    }
}

/// The data source reads the message when it is set up; it is to find nothing unexpected.
fn check_track_event_field(field: FieldAt<'_, '_>) -> Result<(), ConfigError> {
    match field.number() {
        TrackEventSchema::DISABLED_CATEGORIES_FIELD_NUMBER => {
            check_pattern(field, "disabled_categories")
        }
        TrackEventSchema::ENABLED_CATEGORIES_FIELD_NUMBER => {
            check_pattern(field, "enabled_categories")
        }
        TrackEventSchema::DISABLED_TAGS_FIELD_NUMBER => check_pattern(field, "disabled_tags"),
        TrackEventSchema::ENABLED_TAGS_FIELD_NUMBER => check_pattern(field, "enabled_tags"),
        TrackEventSchema::DISABLE_INCREMENTAL_TIMESTAMPS_FIELD_NUMBER => {
            field.bool("disable_incremental_timestamps").map(drop)
        }
        TrackEventSchema::TIMESTAMP_UNIT_MULTIPLIER_FIELD_NUMBER => {
            field.u64("timestamp_unit_multiplier").map(drop)
        }
        TrackEventSchema::FILTER_DEBUG_ANNOTATIONS_FIELD_NUMBER => {
            field.bool("filter_debug_annotations").map(drop)
        }
        TrackEventSchema::ENABLE_THREAD_TIME_SAMPLING_FIELD_NUMBER => {
            field.bool("enable_thread_time_sampling").map(drop)
        }
        TrackEventSchema::FILTER_DYNAMIC_EVENT_NAMES_FIELD_NUMBER => {
            field.bool("filter_dynamic_event_names").map(drop)
        }
        TrackEventSchema::THREAD_TIME_SUBSAMPLING_NS_FIELD_NUMBER => {
            field.u64("thread_time_subsampling_ns").map(drop)
        }
        _ => Err(field.refuse()),
    }
}

/// A name, or the beginning of names with a `*` behind it.
fn check_pattern(field: FieldAt<'_, '_>, name: &'static str) -> Result<(), ConfigError> {
    let pattern = field.string(name)?;
    let stem = pattern.strip_suffix('*').unwrap_or(&pattern);
    if stem.contains('*') {
        let reason = format!("{pattern:?} has a `*` that is not its end");
        return Err(field.place(name).invalid(reason));
    }
    Ok(())
}
