//! Checks that hold for every message type of a schema.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, ExtensionDescriptor, MessageDescriptor,
};

use crate::driver::{Driver, EnumDriver, Form};
use crate::field::{self, Field};
use crate::library::{canonical, from_foreign, to_foreign};
use crate::message::{Content, Message};
use crate::random::{self, Fields, Random};

/// The number of messages per type that have only some fields, beside those with all fields.
const MESSAGES_WITH_SOME_FIELDS: usize = 4;

/// A schema with its generated code.
#[derive(Debug)]
pub struct Schema {
    descriptors: FileDescriptorSet,
    pool: DescriptorPool,
    drivers: &'static [Driver],
    enums: &'static [EnumDriver],
}

/// Counts of the declarations of a schema, by its descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclarationCounts {
    /// Files, including those that the parsers contain.
    pub files: usize,
    /// Message types.
    pub messages: usize,
    /// Fields and extensions of these types.
    pub fields: usize,
    /// The extensions among them.
    pub extensions: usize,
    /// Extensions of options, which annotate a schema and are not in messages.
    pub custom_options: usize,
    /// Repeated fields that are packed or could be.
    pub packable_fields: usize,
    /// Members of oneofs.
    pub oneof_members: usize,
    /// Enums.
    pub enums: usize,
    /// Values of these enums.
    pub enum_values: usize,
}

/// The package of the files that the parsers contain. It is used, not declared.
const BUILT_IN: &str = "google.protobuf";

impl Schema {
    /// Creates a schema from its descriptors, with the drivers of its message types and enums.
    ///
    /// # Panics
    ///
    /// If the descriptors are not those of a schema.
    #[must_use]
    pub fn new(
        descriptors: &[u8],
        drivers: &'static [Driver],
        enums: &'static [EnumDriver],
    ) -> Self {
        Schema {
            descriptors: FileDescriptorSet::decode(descriptors).expect("an encoded set"),
            pool: DescriptorPool::decode(descriptors).expect("descriptors of a schema"),
            drivers,
            enums,
        }
    }

    /// Iterates over the message types that the schema declares, without the entries of maps, which
    /// are messages in descriptors only.
    fn messages(&self) -> impl Iterator<Item = MessageDescriptor> {
        let messages = self.pool.all_messages();
        messages.filter(|it| it.package_name() != BUILT_IN && !it.is_map_entry())
    }

    fn enums(&self) -> impl Iterator<Item = EnumDescriptor> {
        let enums = self.pool.all_enums();
        enums.filter(|it| it.package_name() != BUILT_IN)
    }

    /// Counts what the schema declares.
    ///
    /// # Panics
    ///
    /// If there are extensions of other messages than those declared.
    #[must_use]
    pub fn declared(&self) -> DeclarationCounts {
        let is_option = |extension: &ExtensionDescriptor| {
            let extended = extension.containing_message();
            extended.package_name() == BUILT_IN && extended.name().ends_with("Options")
        };
        let extensions = self.messages().map(|it| it.extensions().len()).sum();
        let custom_options = self.pool.all_extensions().filter(is_option).count();
        let all_extensions = self.pool.all_extensions().len();
        assert_eq!(extensions + custom_options, all_extensions);
        let packable = |of: &Vec<Field>| of.iter().filter(|field| field.is_packable()).count();
        let members = |of: MessageDescriptor| field::by_oneof(&of).1.concat().len();
        DeclarationCounts {
            files: self.pool.files().len(),
            messages: self.messages().count(),
            fields: self.messages().map(|it| field::all(&it).len()).sum(),
            extensions,
            custom_options,
            packable_fields: self.messages().map(|it| packable(&field::all(&it))).sum(),
            oneof_members: self.messages().map(members).sum(),
            enums: self.enums().count(),
            enum_values: self
                .enums()
                .map(|it| it.enum_descriptor_proto().value.len())
                .sum(),
        }
    }

    /// Asserts that every message type and enum of the schema has generated code, in the file of
    /// its package.
    ///
    /// # Panics
    ///
    /// If a message type or enum has no generated code.
    pub fn nothing_is_left_out(&self) {
        let declared: BTreeSet<(String, String)> = self
            .messages()
            .map(|it| (it.package_name().to_owned(), it.full_name().to_owned()))
            .chain(
                self.enums()
                    .map(|it| (it.package_name().to_owned(), it.full_name().to_owned())),
            )
            .collect();
        let generated: BTreeSet<(String, String)> = self
            .drivers
            .iter()
            .map(|driver| (driver.unit, driver.name))
            .chain(self.enums.iter().map(|driver| (driver.unit, driver.name)))
            .map(|(unit, name)| (unit.to_owned(), name.to_owned()))
            .collect();
        let missing: Vec<_> = declared.difference(&generated).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// Asserts that the library reads what a generated writer has written, in each form.
    ///
    /// # Panics
    ///
    /// If the library reads something else.
    pub fn library_reads_what_we_write(&self) {
        self.exchange(|driver, of, message| {
            let expected = canonical(message, of);
            for form in Form::ALL {
                let bytes = (driver.write)(message, form);
                let read = DynamicMessage::decode(of.clone(), bytes.as_slice())
                    .unwrap_or_else(|error| panic!("{}, {form:?}: {error}", driver.name));
                assert_eq!(from_foreign(&read), expected, "{}, {form:?}", driver.name);
            }
        });
    }

    /// Asserts that a generated decoder reads what the library has written.
    ///
    /// # Panics
    ///
    /// If the decoder reads something else.
    pub fn we_read_what_the_library_writes(&self) {
        self.exchange(|driver, of, message| {
            let bytes = to_foreign(message, of).encode_to_vec();
            let read =
                (driver.read)(&bytes).unwrap_or_else(|error| panic!("{}: {error}", driver.name));
            assert_eq!(
                canonical(&read, of),
                canonical(message, of),
                "{}",
                driver.name
            );
        });
    }

    /// Calls `check` with random messages of every type. Every field of every type is set in some
    /// of them.
    fn exchange(&self, mut check: impl FnMut(&Driver, &MessageDescriptor, &Message)) {
        let (mut messages, mut fields) = (0, 0);
        for (driver, of, mut random) in self.drivers() {
            let oneofs = field::by_oneof(&of).1;
            let turns = oneofs.iter().map(Vec::len).max().unwrap_or(1);
            let all = (0..turns).map(|turn| Fields::All { turn });
            let mut covered = BTreeSet::new();
            for fields in all.chain([Fields::Some; MESSAGES_WITH_SOME_FIELDS]) {
                let message = random::message(&of, fields, &mut random);
                check(driver, &of, &message);
                covered.extend(message.fields.into_keys());
            }
            if driver.is_of_own_package(&of) {
                messages += 1;
                fields += covered.len();
            }
        }
        let declared = self.declared();
        assert_eq!((messages, fields), (declared.messages, declared.fields));
    }

    /// Iterates over the drivers, each with its message type and a random generator of its own.
    fn drivers(&self) -> impl Iterator<Item = (&'static Driver, MessageDescriptor, Random)> {
        self.drivers.iter().zip(0..).map(|(driver, seed)| {
            let of = self.pool.get_message_by_name(driver.name);
            let of = of.unwrap_or_else(|| panic!("the schema has no {}", driver.name));
            (driver, of, Random::new(seed))
        })
    }

    /// Asserts that both sides read the elements of a repeated field in order, even if only some of
    /// the elements are packed.
    ///
    /// # Panics
    ///
    /// If a side reads other elements, or another order.
    pub fn packed_and_unpacked_elements_mix(&self) {
        let flipped = self.with_packed_flipped();
        let mut fields = 0;
        for (driver, of, mut random) in self.drivers() {
            let of_flipped = flipped
                .get_message_by_name(driver.name)
                .expect("the same types");
            let numbers: BTreeSet<u32> = field::all(&of)
                .iter()
                .filter(|field| field.is_packable())
                .map(Field::number)
                .collect();
            let mut part = || {
                let mut message = random::message(&of, Fields::All { turn: 0 }, &mut random);
                message.fields.retain(|number, _| numbers.contains(number));
                message
            };
            let parts = [part(), part(), part()];
            let mut bytes = to_foreign(&parts[0], &of).encode_to_vec();
            bytes.extend(to_foreign(&parts[1], &of_flipped).encode_to_vec());
            bytes.extend((driver.write)(&parts[2], Form::Halves));
            let expected = concatenated(&parts);
            let read =
                (driver.read)(&bytes).unwrap_or_else(|error| panic!("{}: {error}", driver.name));
            assert_eq!(read, expected, "{}", driver.name);
            let read = DynamicMessage::decode(of.clone(), bytes.as_slice());
            let read = from_foreign(&read.expect("well-formed"));
            assert_eq!(read, expected, "{}", driver.name);
            if driver.is_of_own_package(&of) {
                fields += numbers.len();
            }
        }
        assert_eq!(fields, self.declared().packable_fields);
    }

    /// Returns the schema with packed fields unpacked, and the other way round.
    fn with_packed_flipped(&self) -> DescriptorPool {
        let mut descriptors = self.descriptors.clone();
        for file in &mut descriptors.file {
            let is_proto3 = file.syntax() == "proto3";
            let mut messages: Vec<_> = file.message_type.iter_mut().collect();
            let mut fields: Vec<_> = file.extension.iter_mut().collect();
            while let Some(message) = messages.pop() {
                fields.extend(message.field.iter_mut().chain(&mut message.extension));
                messages.extend(&mut message.nested_type);
            }
            for field in fields {
                let options = field.options.get_or_insert_default();
                options.packed = Some(!options.packed.unwrap_or(is_proto3));
            }
        }
        DescriptorPool::from_file_descriptor_set(descriptors).expect("only options have changed")
    }

    /// Asserts that the value of a oneof is the member that was written last, if several were
    /// written.
    ///
    /// # Panics
    ///
    /// If a side reads another member.
    pub fn last_member_of_a_oneof_counts(&self) {
        let mut members = 0;
        for (driver, of, mut random) in self.drivers() {
            for oneof in field::by_oneof(&of).1 {
                for turn in 1..=oneof.len() {
                    let mut member = |turn| {
                        let mut message = random::message(&of, Fields::All { turn }, &mut random);
                        let number = oneof[turn % oneof.len()].number();
                        message.fields.retain(|field, _| *field == number);
                        message
                    };
                    let (first, last) = (member(turn - 1), member(turn));
                    let mut bytes = (driver.write)(&first, Form::Closures);
                    if oneof.len() > 1 {
                        bytes.extend((driver.write)(&last, Form::Closures));
                    }
                    let expected = if oneof.len() > 1 { &last } else { &first };
                    let expected = canonical(expected, &of);
                    let read = (driver.read)(&bytes).expect("well-formed");
                    assert_eq!(canonical(&read, &of), expected, "{}", driver.name);
                    let read = DynamicMessage::decode(of.clone(), bytes.as_slice());
                    assert_eq!(from_foreign(&read.expect("well-formed")), expected);
                }
                if driver.is_of_own_package(&of) {
                    members += oneof.len();
                }
            }
        }
        assert_eq!(members, self.declared().oneof_members);
    }

    /// Asserts that enums have the constants, names and defaults of the schema.
    ///
    /// # Panics
    ///
    /// If an enum has others.
    pub fn enums_have_their_values(&self) {
        let mut values = 0;
        for driver in self.enums {
            let of = self
                .pool
                .get_enum_by_name(driver.name)
                .expect("an enum of the schema");
            // Reads the descriptor, because the library sorts the values.
            let published: Vec<(String, i32)> = of
                .enum_descriptor_proto()
                .value
                .iter()
                .map(|value| (value.name().to_owned(), value.number()))
                .collect();
            let constants = driver.constants.iter();
            let constants: Vec<(String, i32)> = constants
                .map(|(name, number)| ((*name).to_owned(), *number))
                .collect();
            assert_eq!(constants, published, "{}", driver.name);
            assert_eq!((driver.default)(), published[0].1, "{}", driver.name);
            // If a number has several names, the first one counts.
            let mut names = BTreeMap::new();
            for (name, number) in &published {
                names.entry(*number).or_insert(name.as_str());
            }
            for (number, name) in &names {
                assert_eq!((driver.name_of)(*number), Some(*name), "{}", driver.name);
                let next = number.wrapping_add(1);
                assert_eq!((driver.name_of)(next), names.get(&next).copied());
            }
            if of.package_name() == driver.unit {
                values += published.len();
            }
        }
        assert_eq!(values, self.declared().enum_values);
    }
}

impl Driver {
    /// Returns true if this driver is for the file of the type's own package. Files of other
    /// packages have a copy of the type if they use it.
    fn is_of_own_package(&self, of: &MessageDescriptor) -> bool {
        of.package_name() == self.unit
    }
}

/// Returns one message whose repeated fields have the elements of all messages.
fn concatenated(messages: &[Message]) -> Message {
    let mut whole = Message::default();
    for (number, content) in messages.iter().flat_map(|message| &message.fields) {
        let so_far = whole.fields.entry(*number);
        match so_far.or_insert_with(|| Content::Many(Vec::new())) {
            Content::Many(elements) => elements.extend_from_slice(content.many()),
            other => panic!("{other:?} is not repeated"),
        }
    }
    whole
}
