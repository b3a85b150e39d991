//! What the drivers are made of. For each message type the build script writes a function that calls
//! all setters of its generated writer, and one that calls all getters of its generated decoder;
//! whatever is not particular to a field is here.

use std::collections::BTreeMap;

use protozero::{DecodeError, HeapBuffered, Writer};

use crate::message::{Content, Message, Value};

/// Leads one message type through its generated code.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// The package whose generated file the code is from.
    pub unit: &'static str,
    /// Full name of the message type.
    pub name: &'static str,
    /// Encodes a message with the generated writer.
    pub write: fn(&Message, Form) -> Vec<u8>,
    /// Decodes a message with the generated decoder.
    pub read: fn(&[u8]) -> Result<Message, DecodeError>,
}

/// Leads the values of one enum through its generated code.
#[derive(Debug, Clone, Copy)]
pub struct EnumDriver {
    /// The package whose generated file the code is from.
    pub unit: &'static str,
    /// Full name of the enum.
    pub name: &'static str,
    /// The names of its values, each with what its constant holds.
    pub constants: &'static [(&'static str, i32)],
    /// The name that a number has.
    pub name_of: fn(i32) -> Option<&'static str>,
    /// The number of the default.
    pub default: fn() -> i32,
}

/// Which methods to take, where a writer has several for the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Nested messages in closures, packed fields element by element.
    Closures,
    /// Nested messages through guards, packed fields in one go.
    Guards,
    /// Nested messages in closures; of packed fields one half element by element, then the rest.
    Halves,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 3] = [Form::Closures, Form::Guards, Form::Halves];

    /// Whether nested messages are written through guards.
    #[must_use]
    pub fn has_guards(self) -> bool {
        self == Form::Guards
    }

    /// What of a packed field is written element by element, and what is written in one go.
    #[must_use]
    pub fn split(self, values: &[Value]) -> (&[Value], &[Value]) {
        values.split_at(match self {
            Form::Closures => values.len(),
            Form::Guards => 0,
            Form::Halves => values.len() / 2,
        })
    }
}

/// The first block of a message, in bytes; small, so that messages go over its end.
const FIRST_BLOCK_BYTES: usize = 64;

/// The bytes of a message that `fill` writes.
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

/// Reads all fields of a message of type `D`.
pub type Read<D> = fn(&D, &mut Reader) -> Result<(), DecodeError>;

type Answers<'i, T> = &'i mut dyn Iterator<Item = Result<T, DecodeError>>;

/// Collects what the getters of one message answer.
#[derive(Debug, Default)]
pub struct Reader {
    message: Message,
}

impl Reader {
    /// The answers of all getters of a decoder.
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

    /// A singular field of a scalar or enum type.
    pub fn one(&mut self, number: u32, answer: Option<impl Into<Value>>) {
        if let Some(value) = answer {
            self.set(number, Content::One(value.into()));
        }
    }

    /// A singular field of a message type.
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

    /// A repeated field of a scalar type.
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

    /// A repeated field of an enum type.
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

    /// A repeated field of a message type.
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

    /// A map to scalars. Of entries with the same key the last one counts.
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

    /// A map to enums.
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

    /// A map to messages.
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

    /// A oneof, after its members: the member that it answers with is the one that is set. The
    /// others are on the wire only if they were written earlier.
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
