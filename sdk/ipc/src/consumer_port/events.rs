//! Events that a consumer observes: requests name their kinds, and replies have the events.

use protozero::DecodeError;

use super::{REPLY_MAX_BYTES, cut, join_pieces};
use crate::protos::observable_events::{DataSourceInstanceState, Type};
use crate::protos::{
    ObservableEvents, ObservableEventsDecoder, ObserveEventsResponse, ObserveEventsResponseDecoder,
};
use crate::wire::encoded;

/// The maximum size of the events in one reply, in bytes: a reply has a tag and a length before them.
const EVENTS_MAX_BYTES: usize = REPLY_MAX_BYTES - 8;

/// The kinds of events that a consumer observes, or a daemon knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedEvents {
    /// An instance of a data source has started or stopped.
    pub instances: bool,
    /// All data sources of the session have started.
    pub all_started: bool,
    /// A trigger asks for a clone of the session.
    pub clone_triggers: bool,
}

impl ObservedEvents {
    /// Returns true if there is no kind of events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Collects the kinds of a list. Unknown kinds are ignored.
    pub(super) fn decode(
        types: impl Iterator<Item = Result<Type, DecodeError>>,
    ) -> Result<Self, DecodeError> {
        let mut events = Self::default();
        for event in types {
            match event? {
                Type::DATA_SOURCES_INSTANCES => events.instances = true,
                Type::ALL_DATA_SOURCES_STARTED => events.all_started = true,
                Type::CLONE_TRIGGER_HIT => events.clone_triggers = true,
                _ => {}
            }
        }
        Ok(events)
    }

    pub(super) fn types(self) -> impl Iterator<Item = Type> {
        let all = [
            (self.instances, Type::DATA_SOURCES_INSTANCES),
            (self.all_started, Type::ALL_DATA_SOURCES_STARTED),
            (self.clone_triggers, Type::CLONE_TRIGGER_HIT),
        ];
        let chosen = all.into_iter().filter(|(is_chosen, _)| *is_chosen);
        chosen.map(|(_, event)| event)
    }
}

/// An event that a consumer observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedEvent<'a> {
    /// An instance of a data source has started or stopped.
    Instance(InstanceChange<'a>),
    /// All data sources of the session have started.
    AllStarted,
    /// A trigger asks for a clone of the session.
    CloneTriggered {
        /// The number of the session.
        session_id: u64,
        /// The name of the trigger.
        trigger_name: &'a str,
        /// The name of the producer that activated it.
        producer_name: &'a str,
        /// The user of that producer.
        producer_uid: u32,
        /// When it was activated, in nanoseconds of the clock `BOOTTIME`.
        boot_time_ns: u64,
        /// The time between the activation and the event that the configuration asks for, in milliseconds.
        delay_ms: u64,
    },
}

/// The new state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceChange<'a> {
    /// The name of its producer.
    pub producer_name: &'a str,
    /// The name of its data source.
    pub data_source_name: &'a str,
    /// True if it has started, false if it has stopped or not started yet.
    pub is_started: bool,
}

/// Encodes a reply to `ObserveEvents`, with one event. More replies follow, so it has `has_more`. A reply
/// that ends the events is empty.
#[must_use]
pub fn observed(event: &ObservedEvent<'_>) -> Vec<u8> {
    observe_events_reply(&match event {
        ObservedEvent::Instance(change) => encoded_change(change),
        ObservedEvent::AllStarted => encoded::<ObservableEvents<'_>>(|out| {
            out.set_all_data_sources_started(true);
        }),
        ObservedEvent::CloneTriggered {
            session_id,
            trigger_name,
            producer_name,
            producer_uid,
            boot_time_ns,
            delay_ms,
        } => encoded::<ObservableEvents<'_>>(|out| {
            out.clone_trigger_hit(|out| {
                out.set_tracing_session_id(*session_id as i64);
                out.set_trigger_name(cut(trigger_name));
                out.set_producer_name(cut(producer_name));
                out.set_producer_uid(*producer_uid);
                out.set_boot_time_ns(*boot_time_ns);
                out.set_trigger_delay_ms(*delay_ms);
            });
        }),
    })
}

/// Encodes replies to `ObserveEvents`, with several changes of instances. Calls `each` with the replies:
/// one, or several if the changes do not fit into one, or none if there are no changes.
pub fn observed_instances(changes: &[InstanceChange<'_>], mut each: impl FnMut(&[u8])) {
    if changes.is_empty() {
        return;
    }
    let pieces = changes.iter().map(encoded_change);
    // Names are cut, so no change is too large.
    join_pieces(pieces, EVENTS_MAX_BYTES, |events, _| {
        each(&observe_events_reply(events));
    });
}

fn encoded_change(change: &InstanceChange<'_>) -> Vec<u8> {
    encoded::<ObservableEvents<'_>>(|out| {
        out.add_instance_state_changes(|out| {
            out.set_producer_name(cut(change.producer_name));
            out.set_data_source_name(cut(change.data_source_name));
            out.set_state(if change.is_started {
                DataSourceInstanceState::STARTED
            } else {
                DataSourceInstanceState::STOPPED
            });
        });
    })
}

fn observe_events_reply(events: &[u8]) -> Vec<u8> {
    encoded::<ObserveEventsResponse<'_>>(|out| {
        out.set_events(events);
    })
}

/// Returns the events of a reply to `ObserveEvents`. Unknown events are left out.
///
/// # Errors
///
/// If the reply is malformed.
pub fn decode_observed(reply: &[u8]) -> Result<Vec<ObservedEvent<'_>>, DecodeError> {
    let events = ObserveEventsResponseDecoder::new(reply).events()?;
    let events = ObservableEventsDecoder::new(events.unwrap_or_default());
    let mut found = Vec::new();
    for change in events.instance_state_changes() {
        let change = change?;
        let is_started = match change.state()? {
            Some(DataSourceInstanceState::STARTED) => true,
            Some(DataSourceInstanceState::STOPPED) => false,
            _ => continue,
        };
        found.push(ObservedEvent::Instance(InstanceChange {
            producer_name: change.producer_name()?.unwrap_or_default(),
            data_source_name: change.data_source_name()?.unwrap_or_default(),
            is_started,
        }));
    }
    if events.all_data_sources_started()?.unwrap_or_default() {
        found.push(ObservedEvent::AllStarted);
    }
    if let Some(hit) = events.clone_trigger_hit()? {
        found.push(ObservedEvent::CloneTriggered {
            session_id: hit.tracing_session_id()?.unwrap_or_default() as u64,
            trigger_name: hit.trigger_name()?.unwrap_or_default(),
            producer_name: hit.producer_name()?.unwrap_or_default(),
            producer_uid: hit.producer_uid()?.unwrap_or_default(),
            boot_time_ns: hit.boot_time_ns()?.unwrap_or_default(),
            delay_ms: hit.trigger_delay_ms()?.unwrap_or_default(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer_port::TEXT_MAX_BYTES;

    const CHANGE: InstanceChange<'_> = InstanceChange {
        producer_name: "p",
        data_source_name: "d",
        is_started: true,
    };

    const TRIGGERED: ObservedEvent<'_> = ObservedEvent::CloneTriggered {
        session_id: 3,
        trigger_name: "t",
        producer_name: "p",
        producer_uid: u32::MAX,
        boot_time_ns: 300,
        delay_ms: 5,
    };

    const STOPPED: InstanceChange<'_> = InstanceChange {
        is_started: false,
        ..CHANGE
    };

    /// Replies with their bytes.
    const GOLDEN: [(ObservedEvent<'_>, &[u8]); 4] = [
        (
            ObservedEvent::Instance(CHANGE),
            b"\x0a\x0a\x0a\x08\x0a\x01p\x12\x01d\x18\x02",
        ),
        (
            ObservedEvent::Instance(STOPPED),
            b"\x0a\x0a\x0a\x08\x0a\x01p\x12\x01d\x18\x01",
        ),
        (ObservedEvent::AllStarted, b"\x0a\x02\x10\x01"),
        (
            TRIGGERED,
            b"\x0a\x15\x1a\x13\x08\x03\x12\x01t\x1a\x01p\x20\xff\xff\xff\xff\x0f\x28\xac\x02\x30\x05",
        ),
    ];

    #[test]
    fn events_have_their_bytes_in_both_directions() {
        for (event, bytes) in GOLDEN {
            assert_eq!(observed(&event), bytes, "{event:?}");
            assert_eq!(decode_observed(bytes), Ok(vec![event]));
        }
    }

    #[test]
    fn a_reply_may_have_events_of_all_kinds() {
        let reply = b"\x0a\x0e\x10\x01\x0a\x08\x0a\x01p\x12\x01d\x18\x02\x0a\x00";
        let events = vec![ObservedEvent::Instance(CHANGE), ObservedEvent::AllStarted];
        assert_eq!(decode_observed(reply), Ok(events));
        assert_eq!(decode_observed(&[]), Ok(vec![]));
    }

    #[test]
    fn malformed_events_are_errors() {
        for (_, reply) in GOLDEN {
            for len in 1..reply.len() {
                assert!(decode_observed(&reply[..len]).is_err(), "{len}");
            }
        }
        assert!(decode_observed(&[0x0a, 3, 0x0a, 2, 1]).is_err());
    }

    #[test]
    fn many_changes_are_split_into_replies() {
        let name = "n".repeat(2 * TEXT_MAX_BYTES);
        let change = InstanceChange {
            producer_name: &name,
            ..CHANGE
        };
        let (mut replies, mut events) = (0, 0);
        observed_instances(&[change; 20], |reply| {
            assert!(reply.len() <= REPLY_MAX_BYTES);
            replies += 1;
            events += decode_observed(reply).unwrap().len();
        });
        assert_eq!((replies, events), (3, 20));
        observed_instances(&[CHANGE; 3], |reply| {
            let expected = vec![ObservedEvent::Instance(CHANGE); 3];
            assert_eq!(decode_observed(reply), Ok(expected));
        });
        observed_instances(&[], |_| panic!("no change"));
    }

    #[test]
    fn names_of_any_length_fit_a_reply() {
        let name = "n".repeat(1024 * 1024);
        let event = ObservedEvent::CloneTriggered {
            session_id: u64::MAX,
            trigger_name: &name,
            producer_name: &name,
            producer_uid: u32::MAX,
            boot_time_ns: u64::MAX,
            delay_ms: u64::MAX,
        };
        assert!(observed(&event).len() <= REPLY_MAX_BYTES);
    }
}
