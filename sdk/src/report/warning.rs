//! Warnings about requests of a configuration that had no effect, and about altered values.

use std::fmt;

use tracezero_core::ids::SessionId;
use tracezero_core::own_attributes::refused_environment;
use tracezero_service::{RequestedDataSources, Service, StateStats};
use tracezero_track_event::{
    ARG_MAX_BYTES, AlteredCounts, CategoryFilter, ENABLED, EventConfig, OPEN_SPANS_MAX, TRACK_EVENT,
};

/// The number of names that a warning lists at most.
const NAMES_MAX: usize = 8;

/// A likely mistake: the configuration asked for something that did not exist while the session
/// ran, or values had to be altered.
///
/// The text of a warning says what to do. A [`Report`](crate::Report) prints each warning as a
/// line.
///
/// ```
/// use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
///
/// let config = TraceConfig::empty()
///     .add_buffer(BufferConfig::ring(1024))
///     .add_data_source(DataSourceConfig::new("track_events"));
/// let (_, report) = config.record_in_memory()?.finish();
/// assert_eq!(
///     report.warnings[0].to_string(),
///     "no producer has the data source `track_events`, so it recorded nothing; correct the name, or \
///      register the data source (known: `track_event`)"
/// );
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The program was built with `--cfg tracezero_off`, which removes all trace points.
    BuiltWithOff,
    /// The configuration lists no data source.
    NoDataSource,
    /// No producer has a data source that the configuration names, or the configuration's producer
    /// filters exclude all producers that have it.
    UnknownDataSource {
        /// The name in the configuration.
        name: String,
        /// The names of the data sources that exist.
        known: Vec<String>,
    },
    /// No category that the program reached or declared matches a pattern of the configuration.
    UnmatchedCategory {
        /// The pattern.
        pattern: String,
        /// The names of the categories that exist.
        known: Vec<String>,
    },
    /// Arguments were larger than [`ARG_MAX_BYTES`](crate::ARG_MAX_BYTES). Only their beginnings
    /// are in the trace. Also counts values that the layer for `tracing` left out because the
    /// arguments of a span would have become larger than 64 KiB. The count covers this process
    /// while the session recorded.
    CutArguments {
        /// The number of arguments that were cut or left out.
        count: u64,
    },
    /// Values of counters were outside the range of `i64`, and no float is equal to them. The
    /// nearest floats are in the trace. The count covers this process while the session recorded.
    RoundedCounters {
        /// The number of values that were rounded.
        count: u64,
    },
    /// Spans began inside [`OPEN_SPANS_MAX`](crate::OPEN_SPANS_MAX) open spans of their thread, and
    /// are not in the trace. The count covers this process while the session recorded.
    TooDeepSpans {
        /// The number of spans that are missing.
        count: u64,
    },
    /// A data source has no state of overwritten packets, or its state lacks some: its program is wrong,
    /// or the state has reached its maximum size.
    IncompleteState {
        /// The name of the data source.
        data_source: String,
        /// The number of packets that the state lacks.
        packets: u64,
        /// The first fault.
        error: String,
    },
    /// The crash files of the session lack the state of a data source, because they could not be written.
    /// A recovery would count what was folded into it as lost.
    StateNotInCrashFiles {
        /// The name of the data source.
        data_source: String,
        /// The reason.
        error: String,
    },
    /// A variable of the environment gives attributes of traces, and is malformed, so it was ignored:
    /// see [`set_service`](crate::set_service).
    RefusedVariable {
        /// The name of the variable.
        name: String,
        /// The reason, with a remedy.
        reason: String,
    },
    /// No category that the program reached or declared has a tag that matches a pattern of the
    /// configuration.
    UnmatchedTag {
        /// The pattern.
        pattern: String,
        /// The tags that exist.
        known: Vec<String>,
    },
}

/// Returns the warnings about a session that has recorded. `altered` counts the values that were
/// altered meanwhile.
pub(crate) fn warnings(
    service: &Service,
    session: SessionId,
    altered: AlteredCounts,
) -> Vec<Warning> {
    if !ENABLED {
        return vec![Warning::BuiltWithOff];
    }
    let requested = service.requested_data_sources(session);
    if requested.listed.is_empty() && !requested.all {
        return vec![Warning::NoDataSource];
    }
    let mut warnings = about_data_sources(&requested);
    for warning in about_categories(&requested) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings.extend(about_values(altered));
    warnings.extend(about_states(service, session));
    let refused = refused_environment().iter();
    warnings.extend(refused.map(|variable| Warning::RefusedVariable {
        name: variable.name.to_owned(),
        reason: variable.reason.clone(),
    }));
    warnings
}

fn about_data_sources(requested: &RequestedDataSources) -> Vec<Warning> {
    let missing = requested.listed.iter().filter(|entry| !entry.is_offered);
    let warning = |name: &String| Warning::UnknownDataSource {
        name: name.clone(),
        known: requested.offered.clone(),
    };
    missing.map(|entry| warning(&entry.name)).collect()
}

fn about_categories(requested: &RequestedDataSources) -> Vec<Warning> {
    let entries = requested.listed.iter();
    let of_events = entries.filter(|entry| entry.name == TRACK_EVENT.state().name());
    let filters: Vec<_> = of_events
        .map(|entry| EventConfig::decode(&entry.config).filter)
        .collect();
    if filters.iter().all(CategoryFilter::has_no_patterns) {
        return Vec::new();
    }
    let known = tracezero_track_event::known_categories();
    let of_filter = |filter: &CategoryFilter| {
        let categories = filter.unmatched_categories(&known.names);
        let categories = categories.map(|pattern| Warning::UnmatchedCategory {
            pattern: pattern.to_owned(),
            known: owned(&known.names),
        });
        let tags = filter.unmatched_tags(&known.tags);
        let tags = tags.map(|pattern| Warning::UnmatchedTag {
            pattern: pattern.to_owned(),
            known: owned(&known.tags),
        });
        categories.chain(tags).collect::<Vec<_>>()
    };
    filters.iter().flat_map(of_filter).collect()
}

fn about_states(service: &Service, session: SessionId) -> Vec<Warning> {
    let states = service.stats(session).unwrap_or_default().states;
    let warnings = |state: StateStats| {
        let data_source = state.data_source;
        let incomplete = state.error.map(|error| Warning::IncompleteState {
            data_source: data_source.clone(),
            packets: state.packets_failed,
            error: error.as_ref().to_owned(),
        });
        let error = state.crash_files_error;
        let not_in_files = error.map(|error| Warning::StateNotInCrashFiles {
            data_source,
            error: error.as_ref().to_owned(),
        });
        incomplete.into_iter().chain(not_in_files)
    };
    states.into_iter().flat_map(warnings).collect()
}

fn about_values(altered: AlteredCounts) -> impl Iterator<Item = Warning> {
    let AlteredCounts {
        cut_args,
        rounded_counters,
        too_deep_spans,
    } = altered;
    let all = [
        (cut_args, Warning::CutArguments { count: cut_args }),
        (
            rounded_counters,
            Warning::RoundedCounters {
                count: rounded_counters,
            },
        ),
        (
            too_deep_spans,
            Warning::TooDeepSpans {
                count: too_deep_spans,
            },
        ),
    ];
    let there = all.into_iter().filter(|(count, _)| *count > 0);
    there.map(|(_, warning)| warning)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltWithOff => f.write_str(
                "the program was built with `--cfg tracezero_off`, so it records nothing; \
                 build it without that flag",
            ),
            Self::NoDataSource => f.write_str(
                "the configuration lists no data source, so nothing was recorded; add one, such as \
                 `DataSourceConfig::new(\"track_event\")`",
            ),
            Self::UnknownDataSource { name, known } => {
                let known = Known(known);
                write!(
                    f,
                    "no producer has the data source `{name}`, so it recorded nothing; \
                     correct the name, or register the data source{known}"
                )
            }
            Self::UnmatchedCategory { pattern, known } => {
                let known = Known(known);
                write!(
                    f,
                    "no category matched the pattern `{pattern}`; correct it, or remove it{known}"
                )
            }
            Self::UnmatchedTag { pattern, known } => {
                let known = Known(known);
                write!(
                    f,
                    "no category had a tag that matched the pattern `{pattern}`; correct it, or \
                     remove it{known}"
                )
            }
            Self::CutArguments { count } => write!(
                f,
                "{count} arguments were longer than ARG_MAX_BYTES ({ARG_MAX_BYTES}) and are cut, \
                 marked with `…`; record shorter values, or several arguments"
            ),
            Self::RoundedCounters { count } => write!(
                f,
                "{count} counter values did not fit into `i64` and are rounded to floats; count in a \
                 larger unit"
            ),
            Self::IncompleteState {
                data_source,
                packets: 0,
                error,
            } => write!(f, "the data source `{data_source}` has no state: {error}"),
            Self::IncompleteState {
                data_source,
                packets,
                error,
            } => write!(
                f,
                "the state of the data source `{data_source}` lacks {packets} overwritten packets: {error}; \
                 give it more with `DataSourceConfig::state_limit_kib`, or correct its program or its packets"
            ),
            Self::StateNotInCrashFiles { data_source, error } => write!(
                f,
                "the state of the data source `{data_source}` is not in the crash files: {error}; choose a \
                 directory with more room with `TraceConfig::crash_safe_in`"
            ),
            Self::RefusedVariable { name, reason } => {
                write!(
                    f,
                    "the variable {name} of the environment was ignored: {reason}"
                )
            }
            Self::TooDeepSpans { count } => write!(
                f,
                "{count} spans began inside {OPEN_SPANS_MAX} open ones and were not recorded; drop \
                 guards earlier, or give each operation a track"
            ),
        }
    }
}

/// Prints a list of existing names.
struct Known<'a>(&'a [String]);

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = " (known: ";
        for name in self.0.iter().take(NAMES_MAX) {
            write!(f, "{separator}`{name}`")?;
            separator = ", ";
        }
        match self.0.len() {
            0 => f.write_str(" (none is known)"),
            count if count > NAMES_MAX => write!(f, " and {} more)", count - NAMES_MAX),
            _ => f.write_str(")"),
        }
    }
}
