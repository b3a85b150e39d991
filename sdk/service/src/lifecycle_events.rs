//! Events in the life of a session, which its trace reports.

use tracezero_core::protos::{self, tracing_service_event};

/// The maximum number of events that are kept of one kind, if the kind is not limited to the latest
/// event.
const KEPT_MAX: usize = 64;
/// The maximum number of data sources that one event lists.
pub(super) const NAMES_MAX: usize = 32;

/// An event in the life of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    TracingStarted,
    AllDataSourcesStarted,
    FlushStarted,
    AllDataSourcesFlushed,
    ReadCompleted,
    TracingDisabled,
    CloneStarted,
    /// The position of the buffer in the configuration.
    BufferCloned(u32),
    SlowStartingDataSources(Vec<DataSourceName>),
    LastFlushSlowDataSources(Vec<DataSourceName>),
}

/// The name of a data source and of its producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataSourceName {
    pub(super) producer: String,
    pub(super) data_source: String,
}

impl Event {
    /// Returns true if a snapshot of the clocks is taken when the event happens.
    pub(super) fn comes_with_clocks(&self) -> bool {
        matches!(
            self,
            Self::TracingStarted
                | Self::AllDataSourcesStarted
                | Self::AllDataSourcesFlushed
                | Self::TracingDisabled
        )
    }

    /// Returns true if several events of this kind are kept, rather than only the latest.
    fn is_kept_each_time(&self) -> bool {
        matches!(
            self,
            Self::FlushStarted | Self::AllDataSourcesFlushed | Self::BufferCloned(_)
        )
    }

    #[cold]
    pub(super) fn write(&self, out: &mut protos::TracingServiceEvent<'_>) {
        match self {
            Self::TracingStarted => out.set_tracing_started(true),
            Self::AllDataSourcesStarted => out.set_all_data_sources_started(true),
            Self::FlushStarted => out.set_flush_started(true),
            Self::AllDataSourcesFlushed => out.set_all_data_sources_flushed(true),
            Self::ReadCompleted => out.set_read_tracing_buffers_completed(true),
            Self::TracingDisabled => out.set_tracing_disabled(true),
            Self::CloneStarted => out.set_clone_started(true),
            Self::BufferCloned(index) => out.set_buffer_cloned(*index),
            Self::SlowStartingDataSources(names) => {
                out.slow_starting_data_sources(|out| write_names(names, out));
                out
            }
            Self::LastFlushSlowDataSources(names) => {
                out.last_flush_slow_data_sources(|out| write_names(names, out));
                out
            }
        };
    }
}

fn write_names(names: &[DataSourceName], out: &mut tracing_service_event::DataSources<'_>) {
    for name in names {
        out.add_data_source(|out| {
            out.set_producer_name(&name.producer);
            out.set_data_source_name(&name.data_source);
        });
    }
}

/// The events that were not yet read.
#[derive(Clone, Debug, Default)]
pub(super) struct LifecycleEvents {
    events: Vec<(u64, Event)>,
}

impl LifecycleEvents {
    pub(super) fn note(&mut self, timestamp_ns: u64, event: Event) {
        let same_kind = |other: &(u64, Event)| {
            std::mem::discriminant(&other.1) == std::mem::discriminant(&event)
        };
        let kept = if event.is_kept_each_time() {
            KEPT_MAX
        } else {
            1
        };
        let earlier = self.events.iter().filter(|other| same_kind(other)).count();
        if earlier >= kept
            && let Some(oldest) = self.events.iter().position(same_kind)
        {
            self.events.remove(oldest);
        }
        self.events.push((timestamp_ns, event));
    }

    /// Removes events that are no longer true.
    pub(super) fn retract(&mut self, is_over: impl Fn(&Event) -> bool) {
        self.events.retain(|(_, event)| !is_over(event));
    }

    pub(super) fn append(&mut self, later: Self) {
        self.events.extend(later.events);
    }

    /// Takes the events that were not taken yet, sorted by time. The time is in nanoseconds.
    pub(super) fn take(&mut self) -> Vec<(u64, Event)> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|(timestamp_ns, _)| *timestamp_ns);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flush_events_are_kept_but_only_the_latest_others() {
        let mut events = LifecycleEvents::default();
        for time in 0..100 {
            events.note(time, Event::FlushStarted);
            events.note(time, Event::ReadCompleted);
        }
        let taken = events.take();
        let flushes = taken
            .iter()
            .filter(|(_, event)| *event == Event::FlushStarted);
        assert_eq!(
            flushes.map(|(time, _)| *time).collect::<Vec<_>>(),
            (36..100).collect::<Vec<_>>()
        );
        assert!(taken.contains(&(99, Event::ReadCompleted)));
        assert_eq!(taken.len(), KEPT_MAX + 1);
        assert!(events.take().is_empty());
    }
}
