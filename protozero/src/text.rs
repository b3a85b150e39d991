//! Text that is formatted straight into a string field.

use core::fmt;

use crate::message::Message;

/// A writer of one `string` field, piece by piece, for instance with [`write!`]. Dropping it ends
/// the field.
///
/// ```
/// use core::fmt::Write;
/// use protozero::{HeapBuffered, Message};
///
/// let mut buffer = HeapBuffered::<Message>::new();
/// let mut message = buffer.message();
/// write!(message.begin_string::<1>(), "{}-{:?}", 7, "x")?;
/// drop(message);
/// assert_eq!(buffer.to_vec(), b"\x0a\x057-\"x\"");
/// # Ok::<(), core::fmt::Error>(())
/// ```
#[derive(Debug)]
pub struct StringWriter<'m> {
    /// The text, written like the payload of a nested message.
    text: Message<'m>,
}

impl fmt::Write for StringWriter<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.append_raw(text.as_bytes());
        Ok(())
    }
}

impl Message<'_> {
    /// Begins the `string` field number `FIELD`, for text that does not exist as one `&str`.
    #[inline]
    pub fn begin_string<const FIELD: u32>(&mut self) -> StringWriter<'_> {
        StringWriter {
            text: self.begin_nested::<FIELD>(),
        }
    }

    /// Appends the `string` field number `FIELD` with formatted text, without an intermediate
    /// string. If the formatting of an argument fails, the text ends there.
    ///
    /// ```
    /// use protozero::{HeapBuffered, Message};
    ///
    /// let mut buffer = HeapBuffered::<Message>::new();
    /// buffer.message().append_fmt::<1>(format_args!("{:#x}", 255));
    /// assert_eq!(buffer.to_vec(), b"\x0a\x040xff");
    /// ```
    pub fn append_fmt<const FIELD: u32>(&mut self, text: fmt::Arguments<'_>) {
        // The writer itself never fails.
        let _ = fmt::Write::write_fmt(&mut self.begin_string::<FIELD>(), text);
    }
}
