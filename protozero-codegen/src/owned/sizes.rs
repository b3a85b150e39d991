//! Decides which messages are boxed: messages that could contain themselves, because their structs
//! would have no size, and large messages, so that nested structs do not overflow the stack.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use protobuf::descriptor::FieldDescriptorProto;
use protobuf::descriptor::field_descriptor_proto::{Label, Type};

use crate::registry::{Entry, Registry, oneof_index};

/// The estimated size in bytes above which a struct is boxed as a member of another struct.
const MAX_INLINE_BYTES: usize = 2048;

/// The size of a box, or of the tag of an `Option`, in a struct.
const WORD_BYTES: usize = 8;
/// The size of a list, map, string, byte vector, or of the unknown fields, in a struct.
const LIST_BYTES: usize = 24;

/// Estimated sizes of structs. The estimates, and so the generated code, are the same on all
/// machines.
pub(super) struct Sizes<'a> {
    registry: &'a Registry<'a>,
    /// The estimated sizes in bytes, of the messages visited so far.
    known: RefCell<BTreeMap<String, usize>>,
}

impl<'a> Sizes<'a> {
    pub(super) fn new(registry: &'a Registry<'a>) -> Self {
        Sizes {
            registry,
            known: RefCell::default(),
        }
    }

    /// Returns true if `inner` is boxed as a singular field of `outer`.
    pub(super) fn is_boxed(&self, outer: &str, inner: &str) -> bool {
        self.contains(inner, outer) || self.bytes(inner) > MAX_INLINE_BYTES
    }

    /// Returns true if `outer` is `inner`, or can contain it through any number of singular fields.
    fn contains(&self, outer: &str, inner: &str) -> bool {
        let mut pending = vec![outer];
        let mut seen = BTreeSet::new();
        while let Some(name) = pending.pop() {
            if name == inner {
                return true;
            }
            if seen.insert(name) {
                pending.extend(self.fields(name).iter().filter_map(singular_message));
            }
        }
        false
    }

    fn bytes(&self, message: &str) -> usize {
        let mut known = self.known.borrow_mut();
        // An explicit stack, because the fields of a schema may nest too deep for recursion.
        let mut pending = vec![message];
        while let Some(&name) = pending.last() {
            let fields = self.fields(name).iter();
            let inner = fields
                .filter_map(singular_message)
                .filter(|inner| !known.contains_key(*inner) && !self.contains(inner, name));
            let before = pending.len();
            pending.extend(inner);
            if pending.len() == before {
                let bytes = self.struct_bytes(name, &known);
                known.insert(name.to_owned(), bytes);
                pending.pop();
            }
        }
        known.get(message).copied().unwrap_or_default()
    }

    /// Computes the size of a struct. `known` must have the sizes of all messages in it.
    fn struct_bytes(&self, message: &str, known: &BTreeMap<String, usize>) -> usize {
        let mut bytes = LIST_BYTES;
        // A oneof is as large as its largest member.
        let mut oneofs: BTreeMap<i32, usize> = BTreeMap::new();
        for field in self.fields(message) {
            let field_bytes = match (singular_message(field), field.type_()) {
                (Some(inner), _) if self.contains(inner, message) => WORD_BYTES,
                (Some(inner), _) => match known.get(inner) {
                    Some(&inner) if inner <= MAX_INLINE_BYTES => WORD_BYTES + inner,
                    _ => WORD_BYTES,
                },
                _ if field.label() == Label::LABEL_REPEATED => LIST_BYTES,
                (_, Type::TYPE_STRING | Type::TYPE_BYTES) => LIST_BYTES,
                _ => 2 * WORD_BYTES,
            };
            match oneof_index(field) {
                Some(index) => {
                    let largest = oneofs.entry(index).or_default();
                    *largest = field_bytes.max(*largest);
                }
                None => bytes += field_bytes,
            }
        }
        bytes + oneofs.values().sum::<usize>()
    }

    fn fields(&self, message: &str) -> &'a [FieldDescriptorProto] {
        let message = self.registry.get(message).and_then(Entry::message);
        message.map_or(&[], |message| &message.field)
    }
}

/// Returns the message type of a field, if the field is a singular message.
fn singular_message(field: &FieldDescriptorProto) -> Option<&str> {
    let is_singular = field.label() != Label::LABEL_REPEATED;
    let is_message = is_singular && field.type_() == Type::TYPE_MESSAGE;
    is_message.then(|| field.type_name().trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protobuf::descriptor::{DescriptorProto, FileDescriptorProto};

    fn message(name: &str, fields: &[(&str, Type, Label)]) -> DescriptorProto {
        let mut message = DescriptorProto::new();
        message.set_name(name.to_owned());
        message.field = (1..)
            .zip(fields)
            .map(|(number, (type_name, proto_type, label))| {
                let mut field = FieldDescriptorProto::new();
                field.set_name(format!("field{number}"));
                field.set_number(number);
                field.set_type(*proto_type);
                field.set_label(*label);
                field.set_type_name((*type_name).to_owned());
                field
            })
            .collect();
        message
    }

    fn file(messages: Vec<DescriptorProto>) -> [FileDescriptorProto; 1] {
        let mut file = FileDescriptorProto::new();
        file.message_type = messages;
        [file]
    }

    const ONE: Label = Label::LABEL_OPTIONAL;
    const MANY: Label = Label::LABEL_REPEATED;

    #[test]
    fn messages_in_a_circle_are_boxed_and_lists_break_it() {
        let message_field = |name, label| (name, Type::TYPE_MESSAGE, label);
        let files = file(vec![
            message("A", &[message_field(".B", ONE)]),
            message("B", &[message_field(".A", ONE), message_field(".C", ONE)]),
            message("C", &[message_field(".A", MANY)]),
        ]);
        let registry = Registry::new(&files);
        let sizes = Sizes::new(&registry);
        assert!(sizes.is_boxed("A", "B"));
        assert!(sizes.is_boxed("B", "A"));
        assert!(!sizes.is_boxed("B", "C"));
    }

    #[test]
    fn large_messages_are_boxed() {
        let text = ("", Type::TYPE_STRING, ONE);
        let files = file(vec![
            message("Small", &[text; 84]),
            message("Large", &[text; 85]),
        ]);
        let registry = Registry::new(&files);
        let sizes = Sizes::new(&registry);
        assert_eq!(sizes.bytes("Small"), 2040);
        assert!(!sizes.is_boxed("Outer", "Small"));
        assert!(sizes.is_boxed("Outer", "Large"));
    }

    #[test]
    fn long_chains_of_messages_are_cut_by_boxes() {
        let names: Vec<String> = (0..=200).map(|index| format!(".M{index}")).collect();
        let link = |index: usize| {
            let next = (names[index + 1].as_str(), Type::TYPE_MESSAGE, ONE);
            message(&names[index][1..], &[next])
        };
        let files = file((0..200).map(link).collect());
        let registry = Registry::new(&files);
        let sizes = Sizes::new(&registry);
        let is_boxed = |index: usize| sizes.is_boxed(&names[index][1..], &names[index + 1][1..]);
        let boxes: Vec<usize> = (0..199).filter(|&index| is_boxed(index)).collect();
        assert_eq!(boxes.len(), 3, "{boxes:?}");
        assert!(
            boxes.windows(2).all(|pair| pair[1] - pair[0] == 65),
            "{boxes:?}"
        );
    }
}
