//! Events that are not published. The trace describes them, by names and types from their format.
//!
//! In the denser form an event has a message of its own, whose number is given out by the recorder,
//! and each packet that has such messages describes them. In the legacy form, each event has the
//! names of its fields.

use super::encoding::{Tag, append_bytes, append_number, begin_nested, end_nested};
use super::field_type::{FieldType, ValueType};
use super::format::{EventFormat, Field};

/// The number that the first of these events gets in `FtraceEvent`. Published events are below.
pub(super) const FIRST_NUMBER: u32 = 65536;
/// A reader drops events with a field of a larger number.
const FIELDS_MAX: usize = 31;

/// `FtraceEvent.generic`, the message of all events in the legacy form.
pub(super) const LEGACY_NUMBER: u32 = 327;
/// `GenericFtraceEvent.event_name`.
const LEGACY_EVENT_NAME: Tag = Tag::delimited(1);
/// `GenericFtraceEvent.field`.
pub(super) const LEGACY_FIELD: Tag = Tag::delimited(2);
/// `GenericFtraceEvent.Field.name`.
const LEGACY_FIELD_NAME: Tag = Tag::delimited(1);

/// The form of events that are not published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GenericEncoding {
    /// With descriptors. Readers know it since version 50 of Perfetto.
    #[default]
    Denser,
    Legacy,
}

/// The description of an event in the denser form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GenericDescriptor {
    /// The number of the event's message in `FtraceEvent`.
    pub(crate) number: u32,
    /// The fields of a `FtraceEventBundle.GenericEventDescriptor`, encoded. Each packet with events
    /// of this number must have them.
    pub(crate) fields: Vec<u8>,
}

/// The texts of an event in the legacy form.
#[derive(Debug)]
pub(super) struct LegacyNames {
    /// The event's name, encoded as a field.
    pub(super) event: Vec<u8>,
    /// The name of each field, encoded as a field.
    pub(super) fields: Vec<Vec<u8>>,
}

/// A field of an event that is not published.
pub(super) struct GenericField<'a> {
    pub(super) field: &'a Field,
    pub(super) field_type: FieldType,
    /// The field of `GenericFtraceEvent.Field` that has the value, in the legacy form.
    legacy_number: u32,
    /// The value of `FieldDescriptorProto.type`, in the denser form.
    descriptor_type: u64,
}

impl GenericField<'_> {
    /// Returns the tag of the field's value, if the field is the one at `index`.
    pub(super) fn tag(&self, index: usize, encoding: GenericEncoding) -> Tag {
        let number = match encoding {
            GenericEncoding::Denser => number_at(index),
            GenericEncoding::Legacy => self.legacy_number,
        };
        self.field_type.value_type().tag(number)
    }
}

/// Returns the fields that can be described, in the order of the format.
pub(super) fn generic_fields(
    format: &EventFormat,
    encoding: GenericEncoding,
) -> Vec<GenericField<'_>> {
    let fields = format.fields.iter().filter(|field| !field.name.is_empty());
    fields
        .filter_map(|field| {
            let field_type = FieldType::of(field)?;
            let (descriptor_type, legacy_number) = match field_type.value_type() {
                ValueType::Signed => (3, 4),
                ValueType::Unsigned => (4, 5),
                ValueType::Text => (9, 3),
                ValueType::Bytes if encoding == GenericEncoding::Denser => (12, 0),
                ValueType::Bytes | ValueType::List => return None,
            };
            Some(GenericField {
                field,
                field_type,
                legacy_number,
                descriptor_type,
            })
        })
        .take(FIELDS_MAX)
        .collect()
}

/// Describes the event `group/name` with these fields.
pub(super) fn descriptor(
    number: u32,
    group: &str,
    name: &str,
    fields: &[GenericField<'_>],
) -> GenericDescriptor {
    let mut out = Vec::new();
    append_number(&mut out, Tag::number(1), number.into());
    append_bytes(&mut out, Tag::delimited(3), group.as_bytes());
    // A `DescriptorProto`.
    let message = begin_nested(&mut out, Tag::delimited(2));
    append_bytes(&mut out, Tag::delimited(1), name.as_bytes());
    for (index, field) in fields.iter().enumerate() {
        // A `FieldDescriptorProto`.
        let message = begin_nested(&mut out, Tag::delimited(2));
        append_bytes(&mut out, Tag::delimited(1), field.field.name.as_bytes());
        append_number(&mut out, Tag::number(3), number_at(index).into());
        append_number(&mut out, Tag::number(5), field.descriptor_type);
        end_nested(&mut out, message);
    }
    end_nested(&mut out, message);
    GenericDescriptor {
        number,
        fields: out,
    }
}

/// Encodes the names of the event and of its fields.
pub(super) fn legacy_names(name: &str, fields: &[GenericField<'_>]) -> LegacyNames {
    let text = |tag, name: &str| {
        let mut out = Vec::new();
        append_bytes(&mut out, tag, name.as_bytes());
        out
    };
    let fields = fields.iter();
    LegacyNames {
        event: text(LEGACY_EVENT_NAME, name),
        fields: fields
            .map(|field| text(LEGACY_FIELD_NAME, &field.field.name))
            .collect(),
    }
}

/// Returns the number of the field at `index`, in the denser form.
fn number_at(index: usize) -> u32 {
    index as u32 + 1
}
