//! An index of the fields of a message, for generated decoders.

use crate::decoder::{Decoder, Repeated};
use crate::error::DecodeError;
use crate::field::{Field, split_field};
use crate::types::FieldType;

/// An encoded message with an index of its fields. Each generated decoder wraps one.
///
/// Each field that the schema knows has a slot, singular fields first. [`new`](Self::new) scans the
/// message once, and each getter then looks up the position of its field. A message of 4 GiB or
/// more has no index: getters of singular fields return an error, and getters of repeated fields
/// scan the message.
///
/// ```
/// use protozero::{IndexedMessage, types};
///
/// // Field 7 is singular and has slot 0; field 2 is repeated and has slot 1.
/// let slot_of = |number| match number {
///     7 => 0,
///     2 => 1,
///     _ => usize::MAX,
/// };
/// let message = IndexedMessage::<2>::new(b"\x38\x2a\x10\x01\x38\x2b\x10\x02", 1, slot_of);
/// assert_eq!(message.last::<types::Uint32>(0)?, Some(43));
/// assert!(message.repeated::<types::Uint32>(1, 2).eq([Ok(1), Ok(2)]));
/// # Ok::<(), protozero::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IndexedMessage<'a, const SLOTS: usize> {
    decoder: Decoder<'a>,
    /// For each slot, the offset of its field plus 1, or 0 if the field is absent. If a field
    /// occurs several times, a singular field has the offset of its last occurrence, and a repeated
    /// field the offset of its first.
    places: [u32; SLOTS],
    /// The error that the scan found, if the message is malformed.
    error: Option<DecodeError>,
}

impl<'a, const SLOTS: usize> IndexedMessage<'a, SLOTS> {
    /// Scans an encoded message and indexes its fields. The first `singular` slots belong to
    /// singular fields, the others to repeated fields. `slot_of` returns the slot of a field
    /// number, or a value of at least `SLOTS` if the field number has no slot.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8], singular: usize, slot_of: impl Fn(u32) -> usize) -> Self {
        let decoder = Decoder::new(bytes);
        let mut places = [0; SLOTS];
        let mut error = None;
        if u32::try_from(bytes.len()).is_err() {
            error = Some(DecodeError::MessageTooLong);
        } else {
            let mut fields = decoder.fields();
            while let Some(field) = fields.next_with_offset() {
                match field {
                    Ok((offset, field)) => {
                        let slot = slot_of(field.number);
                        if let Some(place) = places.get_mut(slot)
                            && (slot < singular || *place == 0)
                        {
                            *place = offset as u32 + 1;
                        }
                    }
                    Err(malformed) => error = Some(malformed),
                }
            }
        }
        Self {
            decoder,
            places,
            error,
        }
    }

    /// Returns a decoder of the message that does not use the index.
    #[inline]
    #[must_use]
    pub const fn decoder(&self) -> &Decoder<'a> {
        &self.decoder
    }

    /// Returns the value of the singular field with this slot. If the field was written several
    /// times, the last value counts.
    ///
    /// # Errors
    ///
    /// If the message is malformed anywhere, or the field has the wrong wire type.
    #[inline]
    pub fn last<T: FieldType>(&self, slot: usize) -> Result<Option<T::Value<'a>>, DecodeError> {
        self.last_of([slot])?.map(T::from_field).transpose()
    }

    /// Returns the field that was written last among the fields with these slots. For the members
    /// of a oneof, this is the member that is set.
    ///
    /// # Errors
    ///
    /// If the message is malformed anywhere.
    #[inline]
    pub fn last_of<const MEMBERS: usize>(
        &self,
        slots: [usize; MEMBERS],
    ) -> Result<Option<Field<'a>>, DecodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let places = slots.into_iter().map(|slot| self.place(slot));
        Ok(self
            .bytes_from(places.max().unwrap_or_default())
            .and_then(|bytes| {
                let (field, _) = split_field(bytes)?;
                Some(field)
            }))
    }

    /// Iterates over the values of the repeated field with this slot and field number `number`.
    /// Packed and single values may be mixed.
    #[inline]
    #[must_use]
    pub fn repeated<T: FieldType>(&self, slot: usize, number: u32) -> Repeated<'a, T> {
        let all = self.decoder;
        // Scan the whole message, so that the iterator yields the elements before the malformed
        // bytes, and then the error.
        if self.error.is_some() {
            return all.repeated(number);
        }
        let from_first = self.bytes_from(self.place(slot));
        Decoder::new(from_first.unwrap_or_default()).repeated(number)
    }

    #[inline]
    fn place(&self, slot: usize) -> u32 {
        self.places.get(slot).copied().unwrap_or_default()
    }

    /// Returns the bytes from the field at `place` to the end of the message, or `None` if the
    /// field is absent.
    #[inline]
    fn bytes_from(&self, place: u32) -> Option<&'a [u8]> {
        self.decoder.bytes().get(place.checked_sub(1)? as usize..)
    }
}
