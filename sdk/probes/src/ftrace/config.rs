//! What a session wants of the kernel: a decoded `FtraceConfig`.

use std::fs;
use std::time::Duration;

use protozero::DecodeError;
use tracezero_kernel::protos::ftrace_config::tracefs_option::State;
use tracezero_kernel::protos::{FtraceConfigDecoder, SourceConfigsDecoder};

use super::error::FtraceError;

/// The period at which pages are read, if the configuration has none.
const DRAIN_PERIOD: Duration = Duration::from_millis(100);

/// The same if the kernel says when a buffer has filled.
const DRAIN_PERIOD_WITH_PERCENT: Duration = Duration::from_secs(1);

/// The longest period, in ms.
const DRAIN_PERIOD_MAX_MS: u32 = 60_000;

/// The size of a CPU's buffer if the configuration has none, in KiB.
const BUFFER_KIB: u32 = 2048;

/// The same on machines with at least [`LARGE_MACHINE_KIB`] of memory.
const BUFFER_OF_LARGE_MACHINE_KIB: u32 = 8192;
const LARGE_MACHINE_KIB: u64 = 7 << 20;

/// A decoded configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// Names of events: `group/event`, `group/*`, or `event`.
    pub(super) events: Vec<String>,
    /// Names of system calls, such as `sys_read`. Empty for all.
    pub(super) syscalls: Vec<String>,
    /// The size of each CPU's buffer.
    pub(super) buffer_kib: u32,
    pub(super) drain_period: Duration,
    /// How full a buffer must be before its pages are read early, in percent.
    pub(super) drain_percent: Option<u32>,
    pub(super) is_compact: bool,
    /// True if functions of the kernel are written by name.
    pub(super) has_symbols: bool,
    /// True if events that are not published are left out.
    pub(super) is_without_generic: bool,
    /// True if such events describe themselves once in each bundle, in place of each time.
    pub(super) is_generic_dense: bool,
    /// The name of an existing instance; empty for a new one.
    pub(super) instance: String,
    /// The threads that are recorded, in the initial namespace. Empty for all.
    pub(super) tids: Vec<u32>,
    /// Options of the tracer, and whether each is switched on.
    pub(super) options: Vec<(String, bool)>,
    /// The CPUs that are recorded, as the kernel writes them. Empty for all.
    pub(super) cpumask: String,
    pub(super) uses_mono_raw: bool,
    /// What the configuration asks for in vain, each with the reason.
    pub(super) refused: Vec<String>,
}

impl Config {
    /// Decodes the configuration of a data source, an encoded `DataSourceConfig`.
    pub(super) fn decode(data_source: &[u8]) -> Result<Self, FtraceError> {
        let malformed = |error: DecodeError| FtraceError::Config(format!("ftrace_config: {error}"));
        let config = SourceConfigsDecoder::new(data_source)
            .ftrace_config()
            .map_err(malformed)?;
        let config = config.unwrap_or_else(|| FtraceConfigDecoder::new(&[]));
        Self::of_message(&config).map_err(malformed)
    }

    fn of_message(config: &FtraceConfigDecoder<'_>) -> Result<Self, DecodeError> {
        let events = texts(config.ftrace_events())?;
        let syscalls = texts(config.syscall_events())?;
        let percent = config.drain_buffer_percent()?;
        let drain_percent = percent.filter(|percent| (1..=100).contains(percent));
        let period = config.drain_period_ms()?;
        let period = period.filter(|ms| (1..=DRAIN_PERIOD_MAX_MS).contains(ms));
        let default_period = match drain_percent {
            Some(_) => DRAIN_PERIOD_WITH_PERCENT,
            None => DRAIN_PERIOD,
        };
        let asked_kib = config.buffer_size_kb()?.unwrap_or_default();
        let is_lower_bound = config.buffer_size_lower_bound()?.unwrap_or_default();
        let buffer_kib = match (asked_kib, is_lower_bound) {
            (0, _) => default_buffer_kib(),
            (kib, true) => kib.max(default_buffer_kib()),
            (kib, false) => kib,
        };
        let compact = config.compact_sched()?;
        let compact = compact.map(|it| it.enabled()).transpose()?.flatten();
        let mut options = Vec::new();
        for option in config.tracefs_options() {
            let option = option?;
            let name = option.name()?.unwrap_or_default().to_owned();
            options.push((name, option.state()? == Some(State::ENABLED)));
        }
        Ok(Self {
            events,
            syscalls,
            buffer_kib,
            drain_period: period.map_or(default_period, |ms| Duration::from_millis(ms.into())),
            drain_percent,
            is_compact: compact.unwrap_or(true),
            has_symbols: config.symbolize_ksyms()?.unwrap_or_default(),
            is_without_generic: config.disable_generic_events()?.unwrap_or_default(),
            is_generic_dense: config.denser_generic_event_encoding()?.unwrap_or(true),
            instance: config.instance_name()?.unwrap_or_default().to_owned(),
            tids: config.tids_to_trace().collect::<Result<_, _>>()?,
            options,
            cpumask: config.tracing_cpumask()?.unwrap_or_default().to_owned(),
            uses_mono_raw: config.use_monotonic_raw_clock()?.unwrap_or_default(),
            refused: refused(config)?,
        })
    }

    /// Reads pages at the usual period, on kernels that do not say when a buffer has filled.
    pub(super) fn read_often(&mut self) {
        self.drain_percent = None;
        self.drain_period = self.drain_period.min(DRAIN_PERIOD);
    }

    /// Returns true if nothing is recorded, and there is nothing to say about that.
    pub(super) const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.syscalls.is_empty() && self.refused.is_empty()
    }
}

/// Returns the fields that ask for what this recorder does not do, each with the reason.
fn refused(config: &FtraceConfigDecoder<'_>) -> Result<Vec<String>, DecodeError> {
    const ANDROID: &str = "is for Android";
    const ROOT: &str = "changes the tracer of the whole machine, and a session has one of its own";

    let fields = [
        (
            "atrace_categories",
            config.atrace_categories().next().is_some(),
            ANDROID,
        ),
        (
            "atrace_apps",
            config.atrace_apps().next().is_some(),
            ANDROID,
        ),
        (
            "throttle_rss_stat",
            config.throttle_rss_stat()? == Some(true),
            ANDROID,
        ),
        (
            "kprobe_events",
            config.kprobe_events().next().is_some(),
            ROOT,
        ),
        (
            "preserve_ftrace_buffer",
            config.preserve_ftrace_buffer()? == Some(true),
            ROOT,
        ),
        (
            "enable_function_graph",
            config.enable_function_graph()? == Some(true),
            "is not supported",
        ),
        (
            "print_filter",
            config.print_filter()?.is_some(),
            "is not supported",
        ),
    ];
    let refused = fields.into_iter().filter(|(_, is_there, _)| *is_there);
    Ok(refused
        .map(|(name, _, why)| format!("{name} {why}"))
        .collect())
}

fn texts<'a>(
    texts: impl Iterator<Item = Result<&'a str, DecodeError>>,
) -> Result<Vec<String>, DecodeError> {
    texts.map(|text| text.map(str::to_owned)).collect()
}

fn default_buffer_kib() -> u32 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
        kib.trim().parse::<u64>().ok()
    });
    match total {
        Some(kib) if kib >= LARGE_MACHINE_KIB => BUFFER_OF_LARGE_MACHINE_KIB,
        _ => BUFFER_KIB,
    }
}

#[cfg(test)]
mod tests {
    use protozero::{HeapBuffered, Message, Writer as _};
    use tracezero_kernel::protos::FtraceConfig;

    use super::*;

    /// Decodes a configuration that `write` fills.
    fn config(write: impl FnOnce(&mut FtraceConfig<'_>)) -> Config {
        let mut buffer = HeapBuffered::<Message<'_>>::new();
        let mut message = buffer.message();
        write(&mut FtraceConfig::from_message(
            message.begin_nested::<100>(),
        ));
        drop(message);
        Config::decode(&buffer.to_vec()).expect("the configuration is well formed")
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let config = config(|_| {});
        assert!(config.is_empty());
        assert_eq!(config.drain_period, Duration::from_millis(100));
        assert!([BUFFER_KIB, BUFFER_OF_LARGE_MACHINE_KIB].contains(&config.buffer_kib));
        assert!(config.is_compact && config.is_generic_dense && !config.has_symbols);
        assert_eq!(config.refused, Vec::<String>::new());
    }

    #[test]
    fn drain_period_has_limits() {
        for (asked, expected) in [(0, 100), (200, 200), (60_000, 60_000), (3_600_000, 100)] {
            let config = config(|it| {
                it.set_drain_period_ms(asked);
            });
            assert_eq!(
                config.drain_period,
                Duration::from_millis(expected),
                "{asked}"
            );
        }
    }

    #[test]
    fn pages_are_read_once_in_a_second_if_the_kernel_says_when() {
        let config = config(|it| {
            it.set_drain_buffer_percent(50);
        });
        assert_eq!(config.drain_period, Duration::from_secs(1));
        assert_eq!(config.drain_percent, Some(50));
    }

    #[test]
    fn lower_bound_never_makes_a_buffer_smaller() {
        let config = config(|it| {
            it.set_buffer_size_kb(1).set_buffer_size_lower_bound(true);
        });
        assert_eq!(config.buffer_kib, default_buffer_kib());
    }

    #[test]
    fn refused_fields_are_named() {
        let config = config(|it| {
            it.add_atrace_categories("gfx").set_throttle_rss_stat(true);
        });
        let expected = [
            "atrace_categories is for Android",
            "throttle_rss_stat is for Android",
        ];
        assert_eq!(config.refused, expected);
    }
}
