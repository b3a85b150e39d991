//! The parts of drivers. For each message type, the build script writes a function that calls all
//! setters of its generated writer, and one that calls all getters of its generated decoder. The
//! code that is common to all fields is here.

use std::collections::BTreeMap;

use protozero::{DecodeError, HeapBuffered, Writer};

use crate::message::{Content, Message, Value};

/// Writes and reads messages of one type with generated code.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// The package of the generated file.
    pub unit: &'static str,
    /// The full name of the message type.
    pub name: &'static str,
    /// Encodes a message with the generated writer.
    pub write: fn(&Message, Form) -> Vec<u8>,
    /// Decodes a message with the generated decoder.
    pub read: fn(&[u8]) -> Result<Message, DecodeError>,
}

/// The constants and functions of one generated enum.
#[derive(Debug, Clone, Copy)]
pub struct EnumDriver {
    /// The package of the generated file.
    pub unit: &'static str,
    /// The full name of the enum.
    pub name: &'static str,
    /// The names of its values, with the values of their constants.
    pub constants: &'static [(&'static str, i32)],
    /// Returns the name of a number.
    pub name_of: fn(i32) -> Option<&'static str>,
    /// Returns the number of the default.
    pub default: fn() -> i32,
}

/// The methods to use, if a writer has several for the same field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Writes nested messages in closures, packed fields element by element.
    Closures,
    /// Writes nested messages with guards, packed fields in one call.
    Guards,
    /// Writes nested messages in closures. Writes the first half of a packed field element by
    /// element, and the rest in one call.
    Halves,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 3] = [Form::Closures, Form::Guards, Form::Halves];

    /// Returns true if nested messages are written with guards.
    #[must_use]
    pub fn has_guards(self) -> bool {
        self == Form::Guards
    }

    /// Splits a packed field into the elements to write one by one and those to write in one call.
    #[must_use]
    pub fn split(self, values: &[Value]) -> (&[Value], &[Value]) {
        values.split_at(match self {
            Form::Closures => values.len(),
            Form::Guards => 0,
            Form::Halves => values.len() / 2,
        })
    }
}

/// The size of the first block of a message: small, so that messages need more blocks.
const FIRST_BLOCK_BYTES: usize = 64;

/// Returns the bytes of a message that `fill` writes.
///
/// # Panics
///
/// If the writer dropped a field.
#[must_use]
pub fn encode<M: Writer>(fill: impl FnOnce(&mut M::At<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<M>::with_first_block(FIRST_BLOCK_BYTES);
    fill(&mut buffer.message());
    assert_eq!(buffer.dropped_fields(), 0, "{}", M::NAME);
    buffer.to_vec()
}

/// A function that reads all fields of a message of type `D`.
pub type Read<D> = fn(&D, &mut Reader) -> Result<(), DecodeError>;

type Answers<'i, T> = &'i mut dyn Iterator<Item = Result<T, DecodeError>>;

/// Collects the results of the getters of one message.
#[derive(Debug, Default)]
pub struct Reader {
    message: Message,
}

impl Reader {
    /// Returns the results of all getters of a decoder.
    ///
    /// # Errors
    ///
    /// If the message is malformed.
    pub fn read<D>(decoder: &D, read: Read<D>) -> Result<Message, DecodeError> {
        let mut reader = Reader::default();
        read(decoder, &mut reader)?;
        Ok(reader.message)
    }

    fn set(&mut self, number: u32, content: Content) {
        let before = self.message.fields.insert(number, content);
        assert_eq!(before, None, "field {number} is read once");
    }

    /// Adds a singular field of a scalar or enum type.
    pub fn one(&mut self, number: u32, answer: Option<impl Into<Value>>) {
        if let Some(value) = answer {
            self.set(number, Content::One(value.into()));
        }
    }

    /// Adds a singular field of a message type.
    ///
    /// # Errors
    ///
    /// If the nested message is malformed.
    pub fn child<D>(
        &mut self,
        number: u32,
        answer: Option<D>,
        read: Read<D>,
    ) -> Result<(), DecodeError> {
        let message = answer
            .map(|decoder| Reader::read(&decoder, read))
            .transpose()?;
        self.one(number, message);
        Ok(())
    }

    /// Adds a repeated field of a scalar type.
    ///
    /// # Errors
    ///
    /// If an element is malformed.
    pub fn many<V: Into<Value>>(
        &mut self,
        number: u32,
        answers: Answers<'_, V>,
    ) -> Result<(), DecodeError> {
        let values: Vec<Value> = answers
            .map(|answer| answer.map(Into::into))
            .collect::<Result<_, _>>()?;
        if !values.is_empty() {
            self.set(number, Content::Many(values));
        }
        Ok(())
    }

    /// Adds a repeated field of an enum type.
    ///
    /// # Errors
    ///
    /// If an element is malformed.
    pub fn enums<E: Into<i32>>(
        &mut self,
        number: u32,
        answers: Answers<'_, E>,
    ) -> Result<(), DecodeError> {
        self.many::<i32>(number, &mut answers.map(|answer| answer.map(Into::into)))
    }

    /// Adds a repeated field of a message type.
    ///
    /// # Errors
    ///
    /// If an element is malformed.
    pub fn children<D>(
        &mut self,
        number: u32,
        answers: Answers<'_, D>,
        read: Read<D>,
    ) -> Result<(), DecodeError> {
        self.many::<Message>(
            number,
            &mut answers.map(|answer| Reader::read(&answer?, read)),
        )
    }

    /// Adds a map to scalars. If two entries have the same key, the last one counts.
    ///
    /// # Errors
    ///
    /// If an entry is malformed.
    pub fn map<K: Into<Value>, V: Into<Value>>(
        &mut self,
        number: u32,
        answers: Answers<'_, (K, V)>,
    ) -> Result<(), DecodeError> {
        let entries: BTreeMap<Value, Value> = answers
            .map(|answer| answer.map(|(key, value)| (key.into(), value.into())))
            .collect::<Result<_, _>>()?;
        if !entries.is_empty() {
            self.set(number, Content::Map(entries));
        }
        Ok(())
    }

    /// Adds a map to enums.
    ///
    /// # Errors
    ///
    /// If an entry is malformed.
    pub fn map_of_enums<K: Into<Value>, E: Into<i32>>(
        &mut self,
        number: u32,
        answers: Answers<'_, (K, E)>,
    ) -> Result<(), DecodeError> {
        self.map::<K, i32>(
            number,
            &mut answers.map(|answer| answer.map(|(key, value)| (key, value.into()))),
        )
    }

    /// Adds a map to messages.
    ///
    /// # Errors
    ///
    /// If an entry or a message in it is malformed.
    pub fn map_of_messages<K: Into<Value>, D>(
        &mut self,
        number: u32,
        answers: Answers<'_, (K, D)>,
        read: Read<D>,
    ) -> Result<(), DecodeError> {
        self.map::<K, Message>(
            number,
            &mut answers.map(|answer| {
                let (key, decoder) = answer?;
                Ok((key, Reader::read(&decoder, read)?))
            }),
        )
    }

    /// Adds a oneof, after its members: keeps the member that the oneof's getter returns. The other
    /// members are in the bytes only if they were written earlier.
    ///
    /// # Panics
    ///
    /// If the oneof's getter and those of its members disagree.
    pub fn oneof(&mut self, members: &[u32], answer: Option<(u32, Value)>) {
        let mut last = None;
        for number in members {
            let member = self.message.fields.remove(number);
            match &answer {
                Some((set, _)) if set == number => last = member,
                Some(_) => {}
                None => assert_eq!(member, None, "member {number} of an empty oneof"),
            }
        }
        if let Some((number, value)) = answer {
            let value = Content::One(value);
            assert_eq!(last.as_ref(), Some(&value), "member {number} by itself");
            self.set(number, value);
        }
    }
}
