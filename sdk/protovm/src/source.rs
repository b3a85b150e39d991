//! The patch: a cursor into its bytes, and scans of messages.

use protozero::{Decoder, Field, Fields, Value};

use crate::budget::Budget;
use crate::error::{AbortCause, Malformed, Missing};
use crate::failure::Failure;

/// The form in which a scalar is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarType {
    Varint,
    Fixed32,
    Fixed64,
}

/// A scalar, as encoded: the schema that gives it a meaning is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) scalar_type: ScalarType,
    pub(crate) value: u64,
}

/// A position in the patch: a message, possibly the whole patch, or a scalar.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'p> {
    Message(&'p [u8]),
    Scalar(Scalar),
}

impl<'p> From<Value<'p>> for Source<'p> {
    fn from(value: Value<'p>) -> Self {
        let (scalar_type, value) = match value {
            Value::Bytes(bytes) => return Self::Message(bytes),
            Value::Varint(value) => (ScalarType::Varint, value),
            Value::Fixed32(value) => (ScalarType::Fixed32, value.into()),
            Value::Fixed64(value) => (ScalarType::Fixed64, value),
        };
        Self::Scalar(Scalar { scalar_type, value })
    }
}

impl<'p> Source<'p> {
    pub(crate) fn message(self) -> Result<&'p [u8], AbortCause> {
        match self {
            Self::Message(bytes) => Ok(bytes),
            Self::Scalar(_) => Err(AbortCause::PatchIsScalar),
        }
    }

    pub(crate) fn scalar(self) -> Result<Scalar, AbortCause> {
        match self {
            Self::Scalar(scalar) => Ok(scalar),
            Self::Message(_) => Err(AbortCause::PatchIsNotScalar),
        }
    }

    /// Enters the first occurrence of a field.
    pub(crate) fn enter_field(self, field: u32, budget: &mut Budget) -> Result<Self, Failure> {
        let mut occurrences = Occurrences::new(self, field)?;
        let first = occurrences.next(budget)?;
        first.ok_or(Failure::Missing(Missing::PatchField { field }))
    }

    /// Enters an element of a repeated field of messages.
    pub(crate) fn enter_at(
        self,
        field: u32,
        index: u32,
        budget: &mut Budget,
    ) -> Result<Self, Failure> {
        let mut occurrences = Occurrences::new(self, field)?;
        let mut passed = 0;
        while let Some(element) = occurrences.next(budget)? {
            if passed == index {
                // Perfetto takes any element for bytes, also a scalar.
                return Ok(Self::Message(element.message()?));
            }
            passed += 1;
        }
        Err(Failure::Missing(Missing::PatchElement { field, index }))
    }
}

/// The occurrences of a field in a message of the patch.
pub(crate) struct Occurrences<'p> {
    scan: Scan<'p>,
    field: u32,
}

impl<'p> Occurrences<'p> {
    pub(crate) fn new(source: Source<'p>, field: u32) -> Result<Self, AbortCause> {
        let scan = Scan::new(source.message()?);
        Ok(Self { scan, field })
    }

    pub(crate) fn next(&mut self, budget: &mut Budget) -> Result<Option<Source<'p>>, AbortCause> {
        loop {
            let field = self.scan.next(budget, AbortCause::MalformedPatch)?;
            match field {
                Some(field) if field.number != self.field => {}
                found => return Ok(found.map(|field| field.value.into())),
            }
        }
    }
}

/// Reads the fields of a message one after the other. The message may be malformed behind them.
pub(crate) struct Scan<'a> {
    bytes: &'a [u8],
    fields: Fields<'a>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let fields = Decoder::new(bytes).fields();
        Self { bytes, fields }
    }

    #[inline]
    pub(crate) fn next(
        &mut self,
        budget: &mut Budget,
        malformed: fn(Malformed) -> AbortCause,
    ) -> Result<Option<Field<'a>>, AbortCause> {
        budget.work(1)?;
        let offset = self.fields.offset();
        // The decoder skips groups. The wire type is in the lowest bits of a tag's first byte.
        if let Some(tag) = self.bytes.get(offset)
            && matches!(tag & 7, 3 | 4)
        {
            return Err(malformed(Malformed::Group { offset }));
        }
        let field = self.fields.next().transpose();
        field.map_err(|error| malformed(Malformed::Field(error)))
    }
}
