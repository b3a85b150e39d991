//! A range source without memory.

use super::source::{Outgoing, Range, RangeSource};

/// A source without memory: its stream counts the bytes that are written, and discards them.
///
/// Use it for code that writes messages even if nobody reads them.
///
/// ```
/// use protozero::{NullSource, StreamWriter};
///
/// let mut stream = StreamWriter::new(NullSource);
/// for _ in 0..1000 {
///     stream.message().append_uint32::<1>(7);
/// }
/// assert_eq!(stream.written_bytes(), 2000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSource;

// SAFETY: no memory is handed out.
unsafe impl RangeSource for NullSource {
    fn next_range(&mut self, _: Outgoing<'_>) -> Range {
        Range::NOWHERE
    }
}
