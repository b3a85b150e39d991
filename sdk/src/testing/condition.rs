//! Conditions for spans, polls and instants.

use std::fmt;
use std::time::Duration;

use super::event::{Event, Kind};
use super::failure;
use tracezero_reader::Value;

#[derive(Clone, Debug)]
pub(super) enum Condition {
    Inside(String),
    DirectlyInside(String),
    AtTop,
    Arg(String, Value),
    HasArg(String),
    Category(String),
    OnThread(String),
    OnTrack(String),
    TookLessThan(Duration),
    TookAtLeast(Duration),
    HasEnded,
    Before(String),
    After(String),
    FlowsTo(String),
}

impl Condition {
    pub(super) fn holds(&self, event: Event<'_>) -> bool {
        match self {
            Self::Inside(name) => event.ancestors().any(|around| around.name() == name),
            Self::DirectlyInside(name) => event.parent().is_some_and(|it| it.name() == name),
            Self::AtTop => event.parent().is_none(),
            Self::Arg(path, value) => event.arg(path) == Some(value),
            Self::HasArg(path) => event.arg(path).is_some(),
            Self::Category(category) => event.categories().any(|it| it == category),
            Self::OnThread(name) => {
                let track = event.track_data();
                track.is_thread && track.is_called(name)
            }
            Self::OnTrack(name) => event.track_data().is_called(name),
            Self::TookLessThan(limit) => event.duration().is_some_and(|it| it < *limit),
            Self::TookAtLeast(limit) => event.duration().is_some_and(|it| it >= *limit),
            Self::HasEnded => event.end_ns().is_some(),
            Self::Before(name) => {
                let first = others(event, name).map(Event::start_ns).min();
                match (event.end_ns(), first) {
                    (Some(end_ns), Some(first_ns)) => end_ns <= first_ns,
                    _ => false,
                }
            }
            Self::After(name) => {
                // A span that has not ended ends at the latest possible time: no event is after it.
                let last = others(event, name)
                    .map(|it| it.end_ns().unwrap_or(u64::MAX))
                    .max();
                last.is_some_and(|last_ns| event.start_ns() >= last_ns)
            }
            Self::FlowsTo(name) => others(event, name).any(|other| {
                let is_later = other.start_ns() >= event.start_ns();
                is_later && other.flows().iter().any(|id| event.flows().contains(id))
            }),
        }
    }

    /// Describes why the condition does not hold for `event`. The text calls the event `it`.
    pub(super) fn objection(&self, it: &str, event: Event<'_>) -> String {
        if let Self::Before(name) | Self::After(name) = self
            && others(event, name).next().is_none()
        {
            let names = [Kind::Span, Kind::Instant].map(|kind| event.trace.names_of(kind));
            let similar = failure::is_it(name, names.into_iter().flatten());
            return format!("there is no {name:?}{similar}");
        }
        let objection = match self {
            Self::Inside(_) | Self::DirectlyInside(_) | Self::AtTop => {
                let around: Vec<String> = event
                    .ancestors()
                    .map(|it| format!("{:?}", it.name()))
                    .collect();
                if around.is_empty() {
                    "is not inside any span".to_owned()
                } else {
                    format!("is inside {}", around.join(" inside "))
                }
            }
            Self::Arg(path, _) | Self::HasArg(path) => match event.arg(path) {
                Some(value) => format!("has {path}={value}"),
                None => format!("has no argument {path:?}"),
            },
            Self::Category(_) => {
                let categories: Vec<&str> = event.categories().collect();
                format!("has the category {:?}", categories.join(","))
            }
            Self::OnThread(_) | Self::OnTrack(_) => format!("is on {}", event.track_data().label),
            Self::TookLessThan(_) | Self::TookAtLeast(_) | Self::HasEnded => match event.duration()
            {
                Some(duration) => format!("took {duration:?}"),
                None => "has not ended".to_owned(),
            },
            Self::Before(name) => format!("does not end before {name:?}"),
            Self::After(name) => format!("does not begin after {name:?}"),
            Self::FlowsTo(name) => match event.flows().len() {
                0 => "is not part of any flow".to_owned(),
                _ => format!("is part of flows, but none leads to {name:?}"),
            },
        };
        format!("{it} {objection}")
    }
}

/// Returns all spans and instants with this name, except for `event`.
fn others<'t>(event: Event<'t>, name: &str) -> impl Iterator<Item = Event<'t>> {
    let all = [Kind::Span, Kind::Instant].map(|kind| event.trace.of_kind(kind));
    all.into_iter()
        .flatten()
        .filter(move |other| other.index != event.index && other.name() == name)
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inside(name) => write!(f, "inside {name:?}"),
            Self::DirectlyInside(name) => write!(f, "directly inside {name:?}"),
            Self::AtTop => f.write_str("not inside any span"),
            Self::Arg(path, value) => write!(f, "with {path}={value}"),
            Self::HasArg(path) => write!(f, "with an argument {path:?}"),
            Self::Category(category) => write!(f, "of category {category:?}"),
            Self::OnThread(name) => write!(f, "on thread {name:?}"),
            Self::OnTrack(name) => write!(f, "on track {name:?}"),
            Self::TookLessThan(limit) => write!(f, "that took less than {limit:?}"),
            Self::TookAtLeast(limit) => write!(f, "that took at least {limit:?}"),
            Self::HasEnded => f.write_str("that has ended"),
            Self::Before(name) => write!(f, "before {name:?}"),
            Self::After(name) => write!(f, "after {name:?}"),
            Self::FlowsTo(name) => write!(f, "that flows to {name:?}"),
        }
    }
}
