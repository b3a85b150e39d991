//! The events that Perfetto has published, with the numbers of their fields.
//!
//! The numbers are the same for all kernels, and cannot be derived from the format of an event. The
//! table is checked in; a test of the package `judge` generates it from the published schema.

use super::field_type::ValueType;

/// Groups whose published events have the group in front of their name, because another group has an
/// event of the same name.
const QUALIFIED_GROUPS: [&str; 8] = [
    "dpu",
    "g2d",
    "hypervisor",
    "kgsl",
    "lwis",
    "mali",
    "samsung",
    "sde",
];

/// An event with a published message.
#[derive(Debug)]
pub(crate) struct PublishedEvent {
    name: &'static str,
    /// The number of the message's field in `FtraceEvent`.
    pub(crate) number: u32,
    pub(crate) fields: &'static [PublishedField],
}

/// A field of a published message.
#[derive(Debug)]
pub(crate) struct PublishedField {
    /// The name, which is also that of the record's field.
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    protobuf_type: ProtobufType,
}

#[derive(Clone, Copy, Debug)]
enum ProtobufType {
    Int32,
    Int64,
    Uint32,
    Uint64,
    String,
    Bytes,
    RepeatedUint64,
}

impl PublishedField {
    /// Returns true if a value of this type can be written to the field.
    ///
    /// Any number fits: the width of a number and its sign make no difference to its encoding, and the
    /// schema does not have those of all kernels.
    pub(crate) fn accepts(&self, value_type: ValueType) -> bool {
        match self.protobuf_type {
            ProtobufType::Int32
            | ProtobufType::Int64
            | ProtobufType::Uint32
            | ProtobufType::Uint64 => {
                matches!(value_type, ValueType::Signed | ValueType::Unsigned)
            }
            ProtobufType::String => value_type == ValueType::Text,
            ProtobufType::Bytes => value_type == ValueType::Bytes,
            ProtobufType::RepeatedUint64 => value_type == ValueType::List,
        }
    }
}

/// Returns the published event for an event of the kernel.
pub(crate) fn published_event(group: &str, name: &str) -> Option<&'static PublishedEvent> {
    if QUALIFIED_GROUPS.contains(&group)
        && let Some(event) = named(&format!("{group}_{name}"))
    {
        return Some(event);
    }
    named(name)
}

fn named(name: &str) -> Option<&'static PublishedEvent> {
    let index = EVENTS
        .binary_search_by_key(&name, |event| event.name)
        .ok()?;
    Some(&EVENTS[index])
}

const fn event(
    name: &'static str,
    number: u32,
    fields: &'static [PublishedField],
) -> PublishedEvent {
    PublishedEvent {
        name,
        number,
        fields,
    }
}

macro_rules! field_of_type {
    ($($function:ident => $protobuf_type:ident,)*) => {
        $(
            const fn $function(name: &'static str, number: u32) -> PublishedField {
                PublishedField { name, number, protobuf_type: ProtobufType::$protobuf_type }
            }
        )*
    };
}

field_of_type! {
    int32 => Int32,
    int64 => Int64,
    uint32 => Uint32,
    uint64 => Uint64,
    string => String,
    bytes => Bytes,
    repeated_uint64 => RepeatedUint64,
}

include!("event_table_data.rs");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(EVENTS.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn events_are_found_by_name() {
        let switch = published_event("sched", "sched_switch").unwrap();
        assert_eq!(switch.number, 4);
        let next_pid = switch.fields.iter().find(|f| f.name == "next_pid").unwrap();
        assert_eq!(next_pid.number, 6);
        assert!(next_pid.accepts(ValueType::Signed) && next_pid.accepts(ValueType::Unsigned));
        assert!(!next_pid.accepts(ValueType::Text));
        for event in &EVENTS {
            assert_eq!(named(event.name).map(|e| e.number), Some(event.number));
        }
        assert!(published_event("sched", "sched_switc").is_none());
    }

    #[test]
    fn group_tells_events_of_the_same_name_apart() {
        let number = |group, name| published_event(group, name).map(|event| event.number);
        assert_eq!(number("power", "gpu_frequency"), Some(332));
        assert_eq!(number("kgsl", "gpu_frequency"), Some(509));
        assert_eq!(number("mali", "mali_PM_MCU_ON"), Some(520));
        assert_eq!(number("sde", "sde_evtlog"), Some(354));
    }

    /// These have no fixed fields: events outside of this table are written as they are.
    #[test]
    fn messages_for_other_events_are_no_events() {
        assert!(
            EVENTS
                .iter()
                .all(|event| ![327, 542].contains(&event.number))
        );
        assert!(named("generic").is_none() && named("kprobe_event").is_none());
    }
}
