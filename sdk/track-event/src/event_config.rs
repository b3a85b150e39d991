//! The configuration of track events in a session: which events to record, and how to encode them.

use protozero::{Decoder, types};

use crate::category_filter::CategoryFilter;
use crate::options::EventOptions;
use tracezero_core::protos::{DataSourceConfig, TrackEventConfigDecoder};

/// A `TrackEventConfig`, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventConfig {
    /// The choice of categories.
    pub filter: CategoryFilter,
    pub(crate) options: EventOptions,
}

impl EventConfig {
    /// Decodes the track event part of a serialized `DataSourceConfig`.
    #[must_use]
    pub fn decode(config: &[u8]) -> Self {
        // If the configuration was concatenated, this message comes in several parts, which add up
        // to one.
        let parts = Decoder::new(config)
            .repeated::<types::Bytes>(DataSourceConfig::TRACK_EVENT_CONFIG_FIELD_NUMBER);
        let parts: Vec<&[u8]> = parts.flatten().collect();
        let message = parts.concat();
        let config = TrackEventConfigDecoder::new(&message);
        Self {
            filter: CategoryFilter::new(&config),
            options: EventOptions::new(&config),
        }
    }
}

#[cfg(test)]
mod tests {
    use protozero::HeapBuffered;

    use super::*;

    #[test]
    fn empty_configuration_has_default_options() {
        let config = EventConfig::decode(&[]);
        assert_eq!(config.options, EventOptions::DEFAULT);
        assert!(config.filter.enables("io", &[]) && !config.filter.enables("io", &["slow"]));
    }

    #[test]
    fn parts_of_a_configuration_add_up() {
        let mut encoded = HeapBuffered::<DataSourceConfig<'_>>::new();
        {
            let mut config = encoded.message();
            config.track_event_config(|events| {
                events.add_disabled_categories("io");
                events.set_timestamp_unit_multiplier(1000);
                events.set_enable_thread_time_sampling(true);
            });
            config.set_name("track_event");
            config.track_event_config(|events| {
                events.add_disabled_categories("net");
                events.set_disable_incremental_timestamps(true);
                events.set_thread_time_subsampling_ns(5);
            });
        }
        let config = EventConfig::decode(&encoded.to_vec());
        for category in ["io", "net"] {
            assert!(!config.filter.enables(category, &[]));
        }
        let expected = EventOptions {
            has_incremental_timestamps: false,
            unit_ns: 1000,
            thread_time_period_ns: Some(5),
            ..EventOptions::DEFAULT
        };
        assert_eq!(config.options, expected);
    }
}
