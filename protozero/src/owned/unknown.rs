//! Fields of a decoded message that the schema does not know.

use ::alloc::vec::Vec;
use core::fmt;

use crate::buffered::HeapBuffered;
use crate::decoder::Decoder;
use crate::message::Writer;

/// The fields of a message that its schema does not know, still encoded, in the order in which they
/// were read. They are written behind all other fields.
///
/// Extensions are unknown fields, too. Read an extension with
/// `BaseDecoder::new(base.unknown_fields.as_bytes()).my_extension()`, and add one with
/// [`append`](UnknownFields::append).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct UnknownFields {
    bytes: Vec<u8>,
}

impl UnknownFields {
    /// Returns the encoded fields. The decoder of the same message can read them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if there are no unknown fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all unknown fields.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends the fields that `write` writes with a writer of the same message.
    ///
    /// ```
    /// use protozero::{Message, owned::UnknownFields};
    ///
    /// let mut fields = UnknownFields::default();
    /// fields.append::<Message<'_>>(|message| message.append_int32::<7>(1));
    /// assert_eq!(fields.as_bytes(), [0x38, 1]);
    /// ```
    pub fn append<W: Writer>(&mut self, write: impl FnOnce(&mut W::At<'_>)) {
        let mut buffer = HeapBuffered::<W>::new();
        write(&mut buffer.message());
        for slice in buffer.slices() {
            self.bytes.extend_from_slice(slice);
        }
    }

    /// Appends one encoded field.
    pub(super) fn push(&mut self, encoded: &[u8]) {
        self.bytes.extend_from_slice(encoded);
    }
}

impl fmt::Debug for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Groups are not shown: `fields` skips them.
        f.debug_list()
            .entries(Decoder::new(&self.bytes).fields().flatten())
            .finish()
    }
}
