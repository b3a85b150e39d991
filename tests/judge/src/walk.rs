//! Visits every field of a message and of the messages inside it. Collects unknown fields and
//! references to interned ids.

use perfetto_protos::trace_packet::TracePacket;
use protobuf::UnknownFields;
use protobuf::reflect::{FieldDescriptor, MessageDescriptor, ReflectFieldRef, ReflectValueRef};
use protobuf::{Message as _, MessageDyn, MessageFull as _};

use crate::schema::Supplements;
use crate::{Rule, Value};

/// The findings about a message and all messages inside it.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) objections: Vec<(Rule, String)>,
    pub(crate) references: Vec<Reference>,
    /// Custom fields, with the full name of the message that has them.
    pub(crate) custom: Vec<(String, Value)>,
    /// The SDK's own extensions of packets.
    pub(crate) own: Vec<Value>,
}

/// The use of an interned id.
#[derive(Debug)]
pub(crate) struct Reference {
    /// The field of InternedData that must define the id.
    pub(crate) table: &'static str,
    pub(crate) iid: u64,
}

pub(crate) fn walk(message: &dyn MessageDyn, supplements: &Supplements<'_>) -> Findings {
    let mut walker = Walker {
        supplements,
        findings: Findings::default(),
    };
    walker.message(message);
    walker.findings
}

struct Walker<'a> {
    supplements: &'a Supplements<'a>,
    findings: Findings,
}

impl Walker<'_> {
    fn message(&mut self, message: &dyn MessageDyn) {
        let descriptor = message.descriptor_dyn();
        self.known_fields(message, &descriptor);
        let unknown = message.unknown_fields_dyn();
        if unknown.iter().next().is_some() {
            self.unknown_fields(unknown.clone(), descriptor.full_name());
        }
    }

    /// Visits a message in a field. In a field that was published later, a packet has a type with the
    /// later fields alone.
    fn nested(&mut self, message: &dyn MessageDyn) {
        let descriptor = message.descriptor_dyn();
        let whole = TracePacket::descriptor();
        if descriptor.full_name() != whole.full_name() || descriptor == whole {
            return self.message(message);
        }
        let bytes = message.write_to_bytes_dyn();
        match bytes.and_then(|bytes| TracePacket::parse_from_bytes(&bytes)) {
            Ok(packet) => self.message(&packet),
            Err(error) => {
                let text = format!("a packet in a packet: {error}");
                self.findings.objections.push((Rule::Decodes, text));
            }
        }
    }

    fn known_fields(&mut self, message: &dyn MessageDyn, descriptor: &MessageDescriptor) {
        for field in descriptor.fields() {
            match field.get_reflect(message) {
                ReflectFieldRef::Optional(value) => {
                    if let Some(value) = value.value() {
                        self.value(&field, descriptor, value);
                    }
                }
                ReflectFieldRef::Repeated(items) => {
                    for value in items {
                        self.value(&field, descriptor, value);
                    }
                }
                ReflectFieldRef::Map(entries) => {
                    for (_, value) in &entries {
                        self.value(&field, descriptor, value);
                    }
                }
            }
        }
    }

    fn value(
        &mut self,
        field: &FieldDescriptor,
        owner: &MessageDescriptor,
        value: ReflectValueRef<'_>,
    ) {
        match value {
            ReflectValueRef::Message(message) => self.nested(&*message),
            ReflectValueRef::Enum(descriptor, number)
                if descriptor.value_by_number(number).is_none() =>
            {
                let text = format!(
                    "{}.{} has no value {number}",
                    owner.full_name(),
                    field.name()
                );
                self.findings.objections.push((Rule::KnownFields, text));
            }
            ReflectValueRef::U64(iid) if is_reference(field, owner) => {
                match table_of(owner.name(), field.name()) {
                    Some(table) => self.findings.references.push(Reference { table, iid }),
                    None => {
                        let text = format!(
                            "{}.{}: no rule says where its ids are defined",
                            owner.full_name(),
                            field.name()
                        );
                        self.findings.objections.push((Rule::Interning, text));
                    }
                }
            }
            _ => {}
        }
    }

    /// Decodes `unknown` by the supplements of the message. Reports the fields that none of them
    /// knows.
    fn unknown_fields(&mut self, mut unknown: UnknownFields, owner: &str) {
        let supplements = self.supplements;
        if let Some(later) = supplements.later(owner) {
            self.supplement(&mut unknown, owner, later);
        }
        for own in supplements.own(owner) {
            let fields = self.supplement(&mut unknown, owner, own);
            self.findings.own.extend(fields);
        }
        for extra in supplements.extra(owner) {
            if let Some(fields) = self.supplement(&mut unknown, owner, extra) {
                self.findings.custom.push((owner.to_owned(), fields));
            }
        }
        for (number, value) in &unknown {
            let text = format!(
                "{owner} has an unknown field {number}, {:?}",
                value.wire_type()
            );
            self.findings.objections.push((Rule::KnownFields, text));
        }
    }

    /// Decodes the fields of `unknown` that `supplement` knows, and leaves the others in it.
    fn supplement(
        &mut self,
        unknown: &mut UnknownFields,
        owner: &str,
        supplement: &MessageDescriptor,
    ) -> Option<Value> {
        match supplement.parse_from_bytes(&unknown.write_to_bytes()) {
            Ok(mut message) => {
                *unknown = std::mem::take(message.mut_unknown_fields_dyn());
                self.known_fields(&*message, supplement);
                let value = Value::of_message(&*message);
                let is_empty = value == Value::Dict([].into());
                (!is_empty).then_some(value)
            }
            Err(error) => {
                let text = format!("further fields of {owner}: {error}");
                self.findings.objections.push((Rule::Decodes, text));
                unknown.clear();
                None
            }
        }
    }
}

/// Returns true if the field is an interned id, by the naming rule of Perfetto's schema. Other
/// schemas need not follow it.
fn is_reference(field: &FieldDescriptor, owner: &MessageDescriptor) -> bool {
    (field.name().ends_with("_iid") || field.name().ends_with("_iids"))
        && owner.full_name().starts_with("perfetto.protos.")
}

/// Returns the field of InternedData that defines the ids of a field.
fn table_of(message: &str, field: &str) -> Option<&'static str> {
    Some(match (message, field) {
        ("TrackEvent", "category_iids") => "event_categories",
        ("TrackEvent" | "LegacyEvent", "name_iid") => "event_names",
        ("TrackEvent", "correlation_id_str_iid") => "correlation_id_str",
        ("TrackEvent" | "LogMessage", "source_location_iid") => "source_locations",
        ("LogMessage", "body_iid") => "log_message_body",
        ("DebugAnnotation", "name_iid") => "debug_annotation_names",
        ("DebugAnnotation", "string_value_iid") => "debug_annotation_string_values",
        ("DebugAnnotation", "proto_type_name_iid") => "debug_annotation_value_type_names",
        _ => return None,
    })
}
