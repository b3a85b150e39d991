//! Random messages of every kind in the schema, made and checked by the independent implementation.

use protobuf::MessageDyn;
use protobuf::descriptor::field_descriptor_proto::Type;
use protobuf::reflect::{
    FieldDescriptor, MessageDescriptor, ReflectEqMode, ReflectValueBox, RuntimeFieldType,
    RuntimeType, Syntax,
};
use protozero::OwnedMessage;

use super::rival;
use super::schema::{old::owned as old, owned};

/// Messages of each kind.
const ROUNDS: u64 = 300;
/// Messages inside each other; leaves have scalars only.
const MAX_DEPTH: u32 = 4;

/// A generator of random numbers with a fixed seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number of random width, so that varints of every length occur.
    fn bits(&mut self) -> u64 {
        let width = self.below(65);
        self.next().checked_shr(64 - width as u32).unwrap_or(0)
    }

    fn message(&mut self, kind: &MessageDescriptor, depth: u32) -> Box<dyn MessageDyn> {
        let mut message = kind.new_instance();
        for field in kind.fields() {
            // Of several members of a oneof, a message made at run time keeps all.
            let is_chosen = match field.containing_oneof() {
                Some(oneof) => oneof.fields().all(|other| !other.has_field(&*message)),
                None => true,
            };
            if is_chosen && (field.is_required() || self.below(2) == 0) {
                self.fill(&mut *message, &field, depth);
            }
        }
        message
    }

    /// Sets a field, where this is no leaf to which a message would be added.
    fn fill(&mut self, message: &mut dyn MessageDyn, field: &FieldDescriptor, depth: u32) {
        let is_leaf = depth == MAX_DEPTH;
        let is_message = |kind: &RuntimeType| matches!(kind, RuntimeType::Message(_));
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(kind) if !is_leaf || !is_message(&kind) => {
                let value = self.value(&kind, depth);
                // The independent implementation would write zeros that need not be there.
                if has_presence(field) || value != field.singular_default_value() {
                    field.set_singular_field(message, value);
                }
            }
            RuntimeFieldType::Repeated(kind) if !is_leaf || !is_message(&kind) => {
                for _ in 0..self.below(4) {
                    let value = self.value(&kind, depth);
                    field.mut_repeated(message).push(value);
                }
            }
            RuntimeFieldType::Map(key, kind) if !is_leaf || !is_message(&kind) => {
                for _ in 0..self.below(4) {
                    let (key, value) = (self.value(&key, depth), self.value(&kind, depth));
                    field.mut_map(message).insert(key, value);
                }
            }
            _ => {}
        }
    }

    fn value(&mut self, kind: &RuntimeType, depth: u32) -> ReflectValueBox {
        let bits = self.bits();
        match kind {
            RuntimeType::I32 => ReflectValueBox::I32(bits as i32),
            RuntimeType::I64 => ReflectValueBox::I64(bits as i64),
            RuntimeType::U32 => ReflectValueBox::U32(bits as u32),
            RuntimeType::U64 => ReflectValueBox::U64(bits),
            // Not random bits: a NaN is unequal to itself.
            RuntimeType::F32 => ReflectValueBox::F32(bits as i16 as f32 / 8.0),
            RuntimeType::F64 => ReflectValueBox::F64(bits as i32 as f64 / 8.0),
            RuntimeType::Bool => ReflectValueBox::Bool(bits & 1 == 1),
            RuntimeType::String => {
                let characters = ['a', 'é', '語', '😀', '\0'];
                let text = (0..self.below(200)).map(|_| characters[self.below(5) as usize]);
                ReflectValueBox::String(text.collect())
            }
            RuntimeType::VecU8 => {
                let bytes = (0..self.below(200)).map(|_| self.next() as u8);
                ReflectValueBox::Bytes(bytes.collect())
            }
            RuntimeType::Enum(kind) => {
                let named = kind
                    .values()
                    .nth(bits as usize % kind.values().count())
                    .map_or(0, |it| it.value());
                let number = if bits & 1 == 1 { named } else { bits as i32 };
                ReflectValueBox::Enum(kind.clone(), number)
            }
            RuntimeType::Message(kind) => ReflectValueBox::Message(self.message(kind, depth + 1)),
        }
    }
}

fn has_presence(field: &FieldDescriptor) -> bool {
    let proto = field.proto();
    field.containing_message().file_descriptor().syntax() == Syntax::Proto2
        || proto.type_() == Type::TYPE_MESSAGE
        || proto.oneof_index.is_some()
}

#[track_caller]
fn assert_round_trips<M: OwnedMessage>(name: &str) {
    let kind = rival::descriptor(name);
    let mut random = Random(name.len() as u64);
    let mut most_bytes = 0;
    for round in 0..ROUNDS {
        let message = random.message(&kind, 0);
        let bytes = message
            .write_to_bytes_dyn()
            .expect("all required fields are set");
        let owned = M::decode(&bytes).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let encoded = owned.encode_to_vec();
        assert_eq!(M::decode(&encoded).as_ref(), Ok(&owned), "round {round}");
        // Both are read, because the independent reader takes a zero in an optional field of proto3
        // for none.
        let [expected, found] = [&bytes, &encoded].map(|bytes| {
            kind.parse_from_bytes(bytes)
                .expect("the bytes are well-formed")
        });
        assert!(
            found.reflect_eq_dyn(&*expected, &ReflectEqMode::default()),
            "round {round}"
        );
        // The independent writer packs only what says so itself, which nothing in `Lists` does.
        if name != "app.Lists" {
            assert_eq!(encoded.len(), bytes.len(), "round {round}");
        }
        most_bytes = most_bytes.max(bytes.len());
    }
    assert!(most_bytes > 20, "some messages hold more than a few values");
}

#[test]
fn random_messages_of_every_type_survive() {
    assert_round_trips::<owned::Scalars>("app.Scalars");
    assert_round_trips::<owned::Lists>("app.Lists");
    assert_round_trips::<old::EveryField>("old.EveryField");
    assert_round_trips::<old::Packed>("old.Packed");
    assert_round_trips::<old::Defaults>("old.Defaults");
}

#[test]
fn random_messages_in_messages_survive() {
    assert_round_trips::<old::Nested>("old.Nested");
    assert_round_trips::<old::Version2>("old.Version2");
    assert_round_trips::<owned::Tree>("app.Tree");
    assert_round_trips::<owned::Mixed>("app.Mixed");
}

#[test]
fn random_damage_never_makes_decoding_panic() {
    let kind = rival::descriptor("app.Tree");
    let mut random = Random(7);
    let mut errors = 0;
    for _ in 0..2000 {
        let mut bytes = random.message(&kind, 2).write_to_bytes_dyn().unwrap();
        for _ in 0..=random.below(3) {
            if !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
        }
        match owned::Tree::decode(&bytes) {
            // What can be read can be written, and read again.
            Ok(tree) => assert_eq!(owned::Tree::decode(&tree.encode_to_vec()), Ok(tree)),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 100, "{errors}");
}
