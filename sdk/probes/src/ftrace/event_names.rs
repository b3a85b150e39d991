//! Which of this kernel's events a configuration means.

use std::collections::BTreeSet;

use super::config::Config;
use super::tracefs::Tracefs;

/// An event of this kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventName {
    pub(super) group: String,
    pub(super) event: String,
}

impl EventName {
    pub(super) fn new((group, event): (&str, &str)) -> Self {
        Self {
            group: group.to_owned(),
            event: event.to_owned(),
        }
    }

    /// Returns `group/event`.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.group, self.event)
    }
}

/// What the names of a configuration mean.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) events: BTreeSet<EventName>,
    /// Names of events that this kernel does not have.
    pub(super) unknown: Vec<String>,
}

/// Looks up the events of a configuration.
pub(super) fn look_up(config: &Config, tracefs: &Tracefs) -> Named {
    let mut named = Named::default();
    for name in &config.events {
        let meanings = meanings(name, tracefs);
        let known = meanings
            .into_iter()
            .filter(|(group, event)| tracefs.has_event(group, event));
        let known: Vec<_> = known.collect();
        if known.is_empty() {
            named.unknown.push(name.clone());
        }
        named.events.extend(
            known
                .into_iter()
                .map(|(group, event)| EventName { group, event }),
        );
    }
    named
}

/// Returns the groups and events that a name may mean.
fn meanings(name: &str, tracefs: &Tracefs) -> Vec<(String, String)> {
    if !is_valid(name) {
        return Vec::new();
    }
    match name.split_once('/') {
        Some((group, "*")) => {
            let events = tracefs.events_of(group).into_iter();
            events.map(|event| (group.to_owned(), event)).collect()
        }
        Some((group, event)) => vec![(group.to_owned(), event.to_owned())],
        None => {
            let groups = tracefs.groups_of(name).into_iter();
            groups.map(|group| (group, name.to_owned())).collect()
        }
    }
}

/// Returns true if a name cannot lead out of the folder of events: printable ASCII with at most one
/// `/` in between, and `*` alone behind it.
fn is_valid(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_dots = part.chars().all(|it| it == '.');
        !is_dots
            && part
                .chars()
                .all(|it| it.is_ascii_graphic() && !"/*".contains(it))
    };
    match name.split_once('/') {
        Some((group, "*")) => is_part(group),
        Some((group, event)) => is_part(group) && is_part(event),
        None => is_part(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_the_folder_of_events() {
        for name in ["sched/sched_switch", "sched_switch", "sched/*", "a.b/c"] {
            assert!(is_valid(name), "{name}");
        }
        for name in [
            "../try/to/escape",
            "/event",
            "event/",
            "..",
            "a/..",
            "",
            "*",
            "*/a",
            "a/b*",
            "a b",
        ] {
            assert!(!is_valid(name), "{name}");
        }
    }
}
