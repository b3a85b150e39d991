//! Checks the message of an event: wire types, interned ids, texts.

use protozero::{DecodeError, Decoder, Field, Value};

use crate::args::ARGS_MAX_DEPTH;
use crate::event::Event;
use crate::iid_table::Table;
use crate::interning::Interned;
use crate::track_event::{FLOW_IDS_OLD, LEGACY_EVENT, TERMINATING_FLOW_IDS_OLD};
use tracezero_core::protos::{DebugAnnotation, LogMessage, TrackEvent};

/// A fault inside an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Malformed(DecodeError),
    WireType { message: &'static str, field: u32 },
    NoText { message: &'static str, field: u32 },
    UnknownIid { table: Table, iid: u64 },
}

/// The references of an event, and its first fault.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The first fault. Further faults of an event usually have the same cause.
    pub(super) fault: Option<Fault>,
    /// True if the event uses interned ids.
    pub(super) has_iids: bool,
    /// True if the event names its track.
    pub(super) has_track: bool,
    /// True if the event has flows.
    pub(super) has_flows: bool,
}

/// The expected encoding of a field.
enum Shape {
    Iid(Table),
    Text,
    Varint,
    Varints,
    Fixed64,
    Fixed64s,
    Message,
    /// Any encoding: the field is not known here.
    Other,
}

impl References {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut references = Self::default();
        references.event(event.bytes, event.interned);
        references
    }

    fn set_fault(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    fn event(&mut self, event: &[u8], interned: Interned<'_>) {
        for field in Decoder::new(event).fields() {
            let field = match field {
                Ok(field) => field,
                Err(error) => return self.set_fault(Fault::Malformed(error)),
            };
            self.field("TrackEvent", field, &shape_in_event(field.number), interned);
            match (field.number, field.value) {
                (TrackEvent::TRACK_UUID_FIELD_NUMBER, _) => self.has_track = true,
                (
                    TrackEvent::FLOW_IDS_FIELD_NUMBER
                    | TrackEvent::TERMINATING_FLOW_IDS_FIELD_NUMBER
                    | FLOW_IDS_OLD
                    | TERMINATING_FLOW_IDS_OLD,
                    _,
                ) => self.has_flows = true,
                (TrackEvent::DEBUG_ANNOTATIONS_FIELD_NUMBER, Value::Bytes(annotation)) => {
                    self.annotation(annotation, interned, 0);
                }
                (TrackEvent::LOG_MESSAGE_FIELD_NUMBER, Value::Bytes(message)) => {
                    self.log_message(message, interned);
                }
                _ => {}
            }
        }
    }

    fn annotation(&mut self, annotation: &[u8], interned: Interned<'_>, depth: u32) {
        for field in Decoder::new(annotation).fields() {
            let field = match field {
                Ok(field) => field,
                Err(error) => return self.set_fault(Fault::Malformed(error)),
            };
            let shape = shape_in_annotation(field.number);
            self.field("DebugAnnotation", field, &shape, interned);
            let is_nested = matches!(
                field.number,
                DebugAnnotation::DICT_ENTRIES_FIELD_NUMBER
                    | DebugAnnotation::ARRAY_VALUES_FIELD_NUMBER
            );
            if let Value::Bytes(nested) = field.value
                && is_nested
                && depth < ARGS_MAX_DEPTH
            {
                self.annotation(nested, interned, depth + 1);
            }
        }
    }

    fn log_message(&mut self, message: &[u8], interned: Interned<'_>) {
        for field in Decoder::new(message).fields() {
            let field = match field {
                Ok(field) => field,
                Err(error) => return self.set_fault(Fault::Malformed(error)),
            };
            let shape = match field.number {
                LogMessage::SOURCE_LOCATION_IID_FIELD_NUMBER => Shape::Iid(Table::Locations),
                LogMessage::BODY_IID_FIELD_NUMBER => Shape::Iid(Table::LogBodies),
                LogMessage::PRIO_FIELD_NUMBER => Shape::Varint,
                _ => Shape::Other,
            };
            self.field("LogMessage", field, &shape, interned);
        }
    }

    fn field(
        &mut self,
        message: &'static str,
        field: Field<'_>,
        shape: &Shape,
        interned: Interned<'_>,
    ) {
        let number = field.number;
        match (shape, field.value) {
            (Shape::Iid(table), Value::Varint(iid)) => {
                self.has_iids = true;
                if !interned.is_known(*table, iid) {
                    self.set_fault(Fault::UnknownIid { table: *table, iid });
                }
            }
            (Shape::Text, Value::Bytes(text)) => {
                if str::from_utf8(text).is_err() {
                    self.set_fault(Fault::NoText {
                        message,
                        field: number,
                    });
                }
            }
            // Repeated numbers may be packed.
            (Shape::Iid(Table::Categories) | Shape::Varints | Shape::Fixed64s, Value::Bytes(_))
            | (Shape::Varint | Shape::Varints, Value::Varint(_))
            | (Shape::Fixed64 | Shape::Fixed64s, Value::Fixed64(_))
            | (Shape::Message, Value::Bytes(_))
            | (Shape::Other, _) => {}
            _ => self.set_fault(Fault::WireType {
                message,
                field: number,
            }),
        }
    }
}

fn shape_in_event(number: u32) -> Shape {
    use TrackEvent as E;
    match number {
        E::NAME_IID_FIELD_NUMBER => Shape::Iid(Table::EventNames),
        E::CATEGORY_IIDS_FIELD_NUMBER => Shape::Iid(Table::Categories),
        E::SOURCE_LOCATION_IID_FIELD_NUMBER => Shape::Iid(Table::Locations),
        E::CORRELATION_ID_STR_IID_FIELD_NUMBER => Shape::Iid(Table::Correlations),
        E::NAME_FIELD_NUMBER | E::CATEGORIES_FIELD_NUMBER | E::CORRELATION_ID_STR_FIELD_NUMBER => {
            Shape::Text
        }
        E::TYPE_FIELD_NUMBER
        | E::TRACK_UUID_FIELD_NUMBER
        | E::COUNTER_VALUE_FIELD_NUMBER
        | E::CORRELATION_ID_FIELD_NUMBER => Shape::Varint,
        E::EXTRA_COUNTER_VALUES_FIELD_NUMBER
        | E::EXTRA_COUNTER_TRACK_UUIDS_FIELD_NUMBER
        | E::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS_FIELD_NUMBER
        | FLOW_IDS_OLD
        | TERMINATING_FLOW_IDS_OLD => Shape::Varints,
        E::DOUBLE_COUNTER_VALUE_FIELD_NUMBER => Shape::Fixed64,
        E::EXTRA_DOUBLE_COUNTER_VALUES_FIELD_NUMBER
        | E::FLOW_IDS_FIELD_NUMBER
        | E::TERMINATING_FLOW_IDS_FIELD_NUMBER => Shape::Fixed64s,
        E::DEBUG_ANNOTATIONS_FIELD_NUMBER
        | E::LOG_MESSAGE_FIELD_NUMBER
        | E::SOURCE_LOCATION_FIELD_NUMBER
        | LEGACY_EVENT => Shape::Message,
        _ => Shape::Other,
    }
}

fn shape_in_annotation(number: u32) -> Shape {
    use DebugAnnotation as A;
    match number {
        A::NAME_IID_FIELD_NUMBER => Shape::Iid(Table::ArgNames),
        A::STRING_VALUE_IID_FIELD_NUMBER => Shape::Iid(Table::ArgTexts),
        A::PROTO_TYPE_NAME_IID_FIELD_NUMBER => Shape::Iid(Table::TypeNames),
        A::NAME_FIELD_NUMBER
        | A::STRING_VALUE_FIELD_NUMBER
        | A::LEGACY_JSON_VALUE_FIELD_NUMBER
        | A::PROTO_TYPE_NAME_FIELD_NUMBER => Shape::Text,
        A::BOOL_VALUE_FIELD_NUMBER
        | A::UINT_VALUE_FIELD_NUMBER
        | A::INT_VALUE_FIELD_NUMBER
        | A::POINTER_VALUE_FIELD_NUMBER => Shape::Varint,
        A::DOUBLE_VALUE_FIELD_NUMBER => Shape::Fixed64,
        A::DICT_ENTRIES_FIELD_NUMBER | A::ARRAY_VALUES_FIELD_NUMBER => Shape::Message,
        _ => Shape::Other,
    }
}
