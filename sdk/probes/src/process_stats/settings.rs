//! What a session wants to know about processes.

use std::num::NonZeroU32;

use tracezero_kernel::protos::ProcessStatsConfigDecoder;
use tracezero_kernel::protos::process_stats_config::Quirks;

/// The shortest period of polling.
const POLL_MS_MIN: u32 = 100;

/// The configuration of an instance, decoded. A field that is missing or malformed has its default.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) scans_on_start: bool,
    /// True if threads of the kernel's events are looked up.
    pub(super) is_on_demand: bool,
    pub(super) records_thread_names: bool,
    pub(super) skips_main_threads: bool,
    pub(super) records_age: bool,
    pub(super) records_runtime: bool,
    pub(super) records_dmabuf_rss: bool,
    pub(super) resolves_fds: bool,
    pub(super) scans_smaps_rollup: bool,
    /// `None` if counters are not polled.
    pub(super) poll_ms: Option<NonZeroU32>,
    /// The number of polls after which all counters are written again, at least 1.
    pub(super) polls_per_cache: u32,
}

impl Settings {
    /// Decodes the configuration. Without one, only threads of the kernel's events are looked up.
    pub(super) fn decode(config: Option<&ProcessStatsConfigDecoder<'_>>) -> Self {
        let empty = ProcessStatsConfigDecoder::new(&[]);
        let config = config.unwrap_or(&empty);
        let is_set = |value: Result<Option<bool>, _>| matches!(value, Ok(Some(true)));
        let poll_ms = config.proc_stats_poll_ms().ok().flatten();
        let poll_ms = poll_ms.filter(|ms| *ms > 0).map(|ms| ms.max(POLL_MS_MIN));
        let cache_ms = config.proc_stats_cache_ttl_ms().ok().flatten();
        let mut quirks = config.quirks().flatten();
        Self {
            scans_on_start: is_set(config.scan_all_processes_on_start()),
            is_on_demand: !quirks.any(|quirk| quirk == Quirks::DISABLE_ON_DEMAND),
            records_thread_names: is_set(config.record_thread_names()),
            skips_main_threads: is_set(config.skip_main_thread_message()),
            records_age: is_set(config.record_process_age()),
            records_runtime: is_set(config.record_process_runtime()),
            records_dmabuf_rss: is_set(config.record_process_dmabuf_rss()),
            resolves_fds: is_set(config.resolve_process_fds()),
            scans_smaps_rollup: is_set(config.scan_smaps_rollup()),
            poll_ms: poll_ms.and_then(NonZeroU32::new),
            polls_per_cache: (cache_ms.unwrap_or(0) / poll_ms.unwrap_or(1)).max(1),
        }
    }
}

#[cfg(test)]
impl Settings {
    /// Returns the settings of the configuration that `write` writes.
    pub(super) fn of(
        write: impl FnOnce(&mut tracezero_kernel::protos::ProcessStatsConfig<'_>),
    ) -> Self {
        let mut config =
            protozero::HeapBuffered::<tracezero_kernel::protos::ProcessStatsConfig<'_>>::new();
        write(&mut config.message());
        let config = config.to_vec();
        Self::decode(Some(&ProcessStatsConfigDecoder::new(&config)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_period_is_at_least_100_ms() {
        let poll_ms = |ms| {
            let settings = Settings::of(|config| {
                config.set_proc_stats_poll_ms(ms);
            });
            settings.poll_ms.map(NonZeroU32::get)
        };
        let periods = [0, 1, 99, 100, 101, u32::MAX].map(poll_ms);
        let expected = [
            None,
            Some(100),
            Some(100),
            Some(100),
            Some(101),
            Some(u32::MAX),
        ];
        assert_eq!(periods, expected);
    }

    #[test]
    fn counters_are_cached_for_whole_polls() {
        let polls = |poll_ms, cache_ms| {
            let settings = Settings::of(|config| {
                config.set_proc_stats_poll_ms(poll_ms);
                config.set_proc_stats_cache_ttl_ms(cache_ms);
            });
            settings.polls_per_cache
        };
        assert_eq!([polls(105, 220), polls(100, 99), polls(100, 0)], [2, 1, 1]);
    }

    #[test]
    fn without_configuration_only_events_matter() {
        let settings = Settings::decode(None);
        assert!(settings.is_on_demand && !settings.scans_on_start);
        assert_eq!(settings.poll_ms, None);
    }

    #[test]
    fn quirk_disables_lookups_on_demand() {
        let settings = Settings::of(|config| {
            config.add_quirks(Quirks::DISABLE_INITIAL_DUMP);
            config.add_quirks(Quirks::DISABLE_ON_DEMAND);
            config.set_scan_all_processes_on_start(true);
        });
        assert!(!settings.is_on_demand);
        assert!(settings.scans_on_start, "the other quirk has no effect");
    }
}
