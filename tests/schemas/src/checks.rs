//! What must hold for every message type of a schema.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::driver::{Driver, EnumDriver, Form};
use crate::field;
use crate::library::{canonical, from_foreign, to_foreign};
use crate::message::{Content, Message};
use crate::random::{self, Fields, Random};

/// Messages of each type with a few fields, beside those with all of them.
const MESSAGES_WITH_SOME_FIELDS: usize = 4;

/// A schema with its generated code.
#[derive(Debug)]
pub struct Schema {
    descriptors: FileDescriptorSet,
    pool: DescriptorPool,
    drivers: &'static [Driver],
    enums: &'static [EnumDriver],
}

/// How much a check has covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// Message types.
    pub messages: usize,
    /// Fields and extensions of these types.
    pub fields: usize,
    /// Messages that went from one side to the other.
    pub exchanged: usize,
}

impl Schema {
    /// A schema by its descriptors, with the drivers of its message types and enums.
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

    fn message(&self, driver: &Driver) -> MessageDescriptor {
        let message = self.pool.get_message_by_name(driver.name);
        message.unwrap_or_else(|| panic!("the schema has no {}", driver.name))
    }

    /// Full names of the message types that are declared in a package. The entries of maps are
    /// messages only in descriptors.
    #[must_use]
    pub fn messages_in(&self, package: &str) -> BTreeSet<String> {
        let messages = self.pool.all_messages();
        messages
            .filter(|it| it.package_name() == package && !it.is_map_entry())
            .map(|it| it.full_name().to_owned())
            .collect()
    }

    /// Full names of the enums that are declared in a package.
    #[must_use]
    pub fn enums_in(&self, package: &str) -> BTreeSet<String> {
        let enums = self.pool.all_enums();
        enums
            .filter(|it| it.package_name() == package)
            .map(|it| it.full_name().to_owned())
            .collect()
    }

    /// Names of the packages that code was generated for.
    #[must_use]
    pub fn units(&self) -> BTreeSet<&'static str> {
        self.drivers.iter().map(|driver| driver.unit).collect()
    }

    /// Every message type and enum of a unit's package has its generated code.
    ///
    /// # Panics
    ///
    /// If one has not.
    pub fn nothing_is_left_out(&self) {
        for unit in self.units() {
            let generated = |names: &mut dyn Iterator<Item = (&'static str, &'static str)>| {
                let names = names.filter(|(of, name)| *of == unit && self.is_declared(unit, name));
                names.map(|(_, name)| name.to_owned()).collect()
            };
            let messages: BTreeSet<String> =
                generated(&mut self.drivers.iter().map(|it| (it.unit, it.name)));
            assert_eq!(messages, self.messages_in(unit), "messages of {unit}");
            let enums: BTreeSet<String> =
                generated(&mut self.enums.iter().map(|it| (it.unit, it.name)));
            assert_eq!(enums, self.enums_in(unit), "enums of {unit}");
        }
    }

    /// Whether a name is declared in a package itself, not in one that it refers to.
    fn is_declared(&self, package: &str, name: &str) -> bool {
        self.messages_in(package).contains(name) || self.enums_in(package).contains(name)
    }

    /// What a generated writer has written, in each form, is what the library reads.
    ///
    /// # Panics
    ///
    /// If it is not.
    #[must_use]
    pub fn library_reads_what_we_write(&self) -> Coverage {
        self.exchange(|driver, of, message| {
            let expected = canonical(message, of);
            for form in Form::ALL {
                let bytes = (driver.write)(message, form);
                let read = DynamicMessage::decode(of.clone(), bytes.as_slice())
                    .unwrap_or_else(|error| panic!("{}, {form:?}: {error}", driver.name));
                assert_eq!(from_foreign(&read), expected, "{}, {form:?}", driver.name);
            }
        })
    }

    /// What the library has written is what a generated decoder reads.
    ///
    /// # Panics
    ///
    /// If it is not.
    #[must_use]
    pub fn we_read_what_the_library_writes(&self) -> Coverage {
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
        })
    }

    /// Does something with random messages of every type, and counts what they hold.
    fn exchange(&self, mut check: impl FnMut(&Driver, &MessageDescriptor, &Message)) -> Coverage {
        let mut coverage = Coverage {
            messages: 0,
            fields: 0,
            exchanged: 0,
        };
        for (driver, seed) in self.drivers.iter().zip(0..) {
            let of = self.message(driver);
            let mut random = Random::new(seed);
            let mut covered = BTreeSet::new();
            let turns = field::by_oneof(&of)
                .1
                .iter()
                .map(Vec::len)
                .max()
                .unwrap_or(1);
            let all = (0..turns).map(|turn| Fields::All { turn });
            for fields in all.chain([Fields::Some; MESSAGES_WITH_SOME_FIELDS]) {
                let message = random::message(&of, fields, &mut random);
                check(driver, &of, &message);
                covered.extend(message.fields.into_keys());
                coverage.exchanged += 1;
            }
            let expected: BTreeSet<u32> =
                field::all(&of).iter().map(field::Field::number).collect();
            assert_eq!(covered, expected, "fields of {}", driver.name);
            coverage.messages += 1;
            coverage.fields += covered.len();
        }
        coverage
    }

    /// Elements of repeated fields that are packed in part are read in their order, by both sides.
    /// Returns the number of fields.
    ///
    /// # Panics
    ///
    /// If they are not.
    #[must_use]
    pub fn packed_and_unpacked_elements_mix(&self) -> usize {
        let flipped = self.with_packed_flipped();
        let mut fields = 0;
        for (driver, seed) in self.drivers.iter().zip(0..) {
            let of = self.message(driver);
            let of_flipped = flipped
                .get_message_by_name(driver.name)
                .expect("the same types");
            let numbers: BTreeSet<u32> = field::all(&of)
                .iter()
                .filter(|field| field.is_packable())
                .map(field::Field::number)
                .collect();
            let mut random = Random::new(seed);
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
            let read = DynamicMessage::decode(of, bytes.as_slice()).expect("well-formed");
            assert_eq!(from_foreign(&read), expected, "{}", driver.name);
            fields += numbers.len();
        }
        fields
    }

    /// The same schema, but fields that were packed are not, and the other way round.
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

    /// A oneof whose members were written one after the other is the last of them. Returns the
    /// number of members that came last.
    ///
    /// # Panics
    ///
    /// If it is not.
    #[must_use]
    pub fn last_member_of_a_oneof_counts(&self) -> usize {
        let mut members = 0;
        for (driver, seed) in self.drivers.iter().zip(0..) {
            let of = self.message(driver);
            let mut random = Random::new(seed);
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
                    members += 1;
                }
            }
        }
        members
    }

    /// The constants of enums, their names and defaults are those of the schema. Returns the number
    /// of values.
    ///
    /// # Panics
    ///
    /// If they are not.
    #[must_use]
    pub fn enums_have_their_values(&self) -> usize {
        let mut values = 0;
        for driver in self.enums {
            let of = self
                .pool
                .get_enum_by_name(driver.name)
                .expect("an enum of the schema");
            // The library itself sorts them.
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
            // Of several names for a number the first counts.
            let mut names = BTreeMap::new();
            for (name, number) in &published {
                names.entry(*number).or_insert(name.as_str());
            }
            for (number, name) in &names {
                assert_eq!((driver.name_of)(*number), Some(*name), "{}", driver.name);
                let next = number.wrapping_add(1);
                assert_eq!((driver.name_of)(next), names.get(&next).copied());
            }
            values += published.len();
        }
        values
    }
}

/// Repeated fields with the elements of all messages.
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
