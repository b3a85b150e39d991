//! Fields that the schema does not know.

use ::alloc::vec::Vec;
use core::fmt;

use crate::buffered::HeapBuffered;
use crate::decoder::Decoder;
use crate::message::Writer;

/// The fields of a message that its schema does not know, as they were encoded and in the order in
/// which they came. They are written behind all others.
///
/// Extensions are among them, for the traits of writers and decoders to handle:
/// `BaseDecoder::new(base.unknown_fields.as_bytes()).my_extension()` reads one, and
/// [`append`](UnknownFields::append) adds one.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct UnknownFields {
    bytes: Vec<u8>,
}

impl UnknownFields {
    /// The encoded fields, for the decoder of the same message.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends what a writer of the same message writes.
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
        // Groups have no value to show.
        f.debug_list()
            .entries(Decoder::new(&self.bytes).fields().flatten())
            .finish()
    }
}
