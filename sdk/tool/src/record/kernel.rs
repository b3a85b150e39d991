//! What a recording has of the kernel.

use tracezero_core::protos::owned::TraceConfig;
use tracezero_probes::{EventGroup, Ftrace, KernelConfig, data_source_names};

use crate::error::error_chain;

/// A group of events, an event by the kernel's name, or a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KernelEvents {
    Group(EventGroup),
    Event(String),
    /// A system call, such as `sys_fsync`.
    Syscall(String),
}

/// Parses a group such as `sched`, an event such as `net/net_dev_xmit`, or a call such as `sys_fsync`.
pub(super) fn parse_events(text: &str) -> Result<KernelEvents, String> {
    let name = text.trim();
    if name.contains('/') {
        return Ok(KernelEvents::Event(name.to_owned()));
    }
    if name.starts_with("sys_") {
        return Ok(KernelEvents::Syscall(name.to_owned()));
    }
    let group = name.parse::<EventGroup>();
    group.map(KernelEvents::Group).map_err(|error| {
        format!(
            "{error}; or name an event of the kernel with its folder, such as net/net_dev_xmit, or a \
             system call, such as sys_fsync"
        )
    })
}

/// Returns the data sources that record these events, each with the fields that only it knows.
/// Without the right to record events, prints why they will be missing.
pub(super) fn data_sources(
    events: &[KernelEvents],
    cpu_buffer_kib: Option<u32>,
) -> Vec<(&'static str, Vec<u8>)> {
    let mut config = KernelConfig::new();
    for event in events {
        config = match event {
            KernelEvents::Group(group) => config.group(*group),
            KernelEvents::Event(name) => config.event(name),
            KernelEvents::Syscall(name) => config.syscall(name),
        };
    }
    if let Some(kib) = cpu_buffer_kib {
        config = config.cpu_buffer_kib(kib);
    }
    // The trace says so as well, for those who read it later.
    if let Err(error) = Ftrace::check() {
        eprintln!(
            "no events of the kernel are recorded, only names of processes and threads: {}",
            error_chain(&error)
        );
    }
    config.encoded()
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
        let call = KernelEvents::Syscall("sys_fsync".to_owned());
        assert_eq!(parse_events("sys_fsync"), Ok(call));
        let event = KernelEvents::Event("net/*".to_owned());
        assert_eq!(parse_events("net/*"), Ok(event));
        let error = parse_events("disk").unwrap_err();
        assert!(error.contains("sched, irq, syscalls, block"), "{error}");
    }
}
