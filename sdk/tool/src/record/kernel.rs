//! What a recording has of the kernel.

use tracezero::DataSource as _;
use tracezero_core::protos::owned::TraceConfig;
use tracezero_probes::{EventGroup, Ftrace, KernelConfig, data_source_names};

use crate::error::error_chain;

/// A group of events, or an event by the kernel's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KernelEvents {
    Group(EventGroup),
    Event(String),
}

/// Parses a group such as `sched`, or an event such as `net/net_dev_xmit`.
pub(super) fn parse_events(text: &str) -> Result<KernelEvents, String> {
    let name = text.trim();
    if name.contains('/') {
        return Ok(KernelEvents::Event(name.to_owned()));
    }
    let group = name.parse::<EventGroup>();
    group.map(KernelEvents::Group).map_err(|error| {
        format!("{error}; or name an event of the kernel with its folder, such as net/net_dev_xmit")
    })
}

/// Returns the data sources that record these events, each with the fields that only it knows.
/// Without the right to record events, returns those that need no right, and prints why.
pub(super) fn data_sources(
    events: &[KernelEvents],
    cpu_buffer_kib: Option<u32>,
) -> Vec<(&'static str, Vec<u8>)> {
    let mut config = KernelConfig::new();
    for event in events {
        config = match event {
            KernelEvents::Group(group) => config.group(*group),
            KernelEvents::Event(name) => config.event(name),
        };
    }
    if let Some(kib) = cpu_buffer_kib {
        config = config.cpu_buffer_kib(kib);
    }
    let mut data_sources = config.encoded();
    if let Err(error) = Ftrace::check() {
        eprintln!(
            "no events of the kernel are recorded, only names of processes and threads: {}",
            error_chain(&error)
        );
        data_sources.retain(|(name, _)| *name != Ftrace::NAME);
    }
    data_sources
}

/// Returns true if a configuration has data sources that this process can offer.
pub(super) fn is_wanted(config: &TraceConfig) -> bool {
    let names = config.data_sources.iter().filter_map(|data_source| {
        let config = data_source.config.as_ref()?;
        config.name.as_deref()
    });
    let ours = data_source_names();
    names.into_iter().any(|name| ours.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_groups_or_have_a_folder() {
        assert_eq!(
            parse_events(" sched"),
            Ok(KernelEvents::Group(EventGroup::Sched))
        );
        let event = KernelEvents::Event("net/*".to_owned());
        assert_eq!(parse_events("net/*"), Ok(event));
        let error = parse_events("disk").unwrap_err();
        assert!(error.contains("sched, irq, syscalls, block"), "{error}");
    }
}
