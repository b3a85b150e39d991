//! The records of a page: one part of the kernel's buffer of one CPU, as `trace_pipe_raw` returns
//! it.
//!
//! A page is untrusted. Each length is checked against the page before it is used, so nothing
//! outside of the page is read, and each step goes forward, so that every page ends.
//!
//! ```text
//! page:    time, 8 bytes | commit, 4 or 8 bytes | records | count of lost events | unused
//! commit:  bits 0..26 length of the records | bit 30: the count is there | bit 31: events lost
//! record:  kind, 5 low bits | time since the record before, 27 bits | what the kind needs
//! ```
//!
//! All numbers are little-endian. Pages of a big-endian kernel are not supported.

#[cfg(test)]
pub(super) mod test_pages; // pages of real kernels

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::iter::FusedIterator;

use tracezero_kernel::protos::FtraceParseStatus;

use super::format::parse_fields;

/// The size in bytes of the largest page that is accepted. The kernel's own limit is 128 pages of
/// memory, which have at most 64 KiB each.
pub(crate) const PAGE_MAX_BYTES: u32 = 128 * 64 * 1024;

/// The part of the commit that is the length of the records.
const RECORDS_LENGTH_MASK: u32 = (1 << 27) - 1;
/// Set in the commit if a count of lost events follows the records.
const LOSS_IS_COUNTED: u32 = 1 << 30;
/// Set in the commit if the kernel has overwritten events between the page before and this one.
const EVENTS_WERE_LOST: u32 = 1 << 31;

/// The number of low bits in the head of a record that are its kind.
const KIND_BITS: u32 = 5;
/// The number of bits that the time of a head has.
const DELTA_BITS: u32 = 27;
/// An event whose length stands in its first word. The kinds from 1 to 28 are events of 4 bytes
/// times the kind.
const LONG_DATA: u32 = 0;
/// A record that the kernel has discarded.
const PADDING: u32 = 29;
/// More bits for the time since the record before.
const TIME_EXTEND: u32 = 30;
/// A time that does not depend on the record before.
const TIME_STAMP: u32 = 31;

/// The size in bytes of the length in front of a record of kind [`LONG_DATA`] or [`PADDING`]. The
/// length includes itself.
const LENGTH_BYTES: usize = 4;

/// The number of bits that a record of kind [`TIME_STAMP`] has.
const ABSOLUTE_BITS: u32 = 59;

/// The layout of a page of the running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    /// The size of the commit in bytes, that of the kernel's `long`: 4 or 8.
    commit_bytes: usize,
    /// The offset of the records, at least that of the end of the commit.
    data_offset: usize,
    /// The size in bytes of the whole page, at most [`PAGE_MAX_BYTES`].
    size_bytes: usize,
}

impl PageLayout {
    /// Parses the kernel's file `events/header_page`.
    ///
    /// # Errors
    ///
    /// If a field is missing, or is where no known kernel has it.
    pub(crate) fn parse(header_page: &str) -> Result<Self, LayoutError> {
        let fields = parse_fields(header_page);
        let extent = |field: &'static str| {
            let found = fields.iter().find(|it| it.name == field);
            let found = found.ok_or(LayoutError { field })?;
            Ok((found.offset, found.size))
        };
        let (time_offset, time_bytes) = extent("timestamp")?;
        if (time_offset, time_bytes) != (0, 8) {
            return Err(LayoutError { field: "timestamp" });
        }
        let (commit_offset, commit_bytes) = extent("commit")?;
        if commit_offset != 8 || !matches!(commit_bytes, 4 | 8) {
            return Err(LayoutError { field: "commit" });
        }
        let (data_offset, data_bytes) = extent("data")?;
        match data_offset.checked_add(data_bytes) {
            Some(size_bytes @ ..=PAGE_MAX_BYTES)
                if data_bytes > 0 && data_offset >= commit_offset + commit_bytes =>
            {
                Ok(Self {
                    commit_bytes: commit_bytes as usize,
                    data_offset: data_offset as usize,
                    size_bytes: size_bytes as usize,
                })
            }
            _ => Err(LayoutError { field: "data" }),
        }
    }

    /// Guesses the layout if `events/header_page` is not readable. `machine` is the kernel's, as
    /// `uname` tells, and `memory_page_bytes` is the size of a page of memory.
    pub(crate) fn guess(machine: &str, memory_page_bytes: u32) -> Self {
        // A kernel of 64 bits says "armv8l" to a process of 32 bits.
        let has_32_bits = usize::BITS == 32
            && !machine.contains("64")
            && machine != "armv8l"
            && machine != "s390x";
        let commit_bytes = if has_32_bits { 4 } else { 8 };
        let data_offset = 8 + commit_bytes;
        Self {
            commit_bytes,
            data_offset,
            size_bytes: memory_page_bytes.clamp(data_offset as u32 + 1, PAGE_MAX_BYTES) as usize,
        }
    }

    /// Returns the number of bytes of a page that records may fill.
    pub(crate) const fn data_bytes(&self) -> usize {
        self.size_bytes - self.data_offset
    }

    /// Returns the size in bytes of a whole page. A read of fewer bytes returns less than a page.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

/// The kernel's description of its pages is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutError {
    /// The first field that is missing or misplaced.
    field: &'static str,
}

impl Error for LayoutError {}

impl Display for LayoutError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "events/header_page: field `{}` is missing or misplaced; \
             the layout of pages has to be guessed",
            self.field
        )
    }
}

/// A page whose header is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'p> {
    timestamp_ns: u64,
    loss: Loss,
    /// Not empty.
    records: &'p [u8],
}

impl<'p> Page<'p> {
    /// Parses the header of a page.
    ///
    /// # Errors
    ///
    /// If the page has no records, or fewer bytes than its header says.
    #[inline]
    pub(crate) fn parse(bytes: &'p [u8], layout: &PageLayout) -> Result<Self, PageError> {
        Self::parse_header(bytes, layout).ok_or(PageError::InvalidHeader)
    }

    fn parse_header(bytes: &'p [u8], layout: &PageLayout) -> Option<Self> {
        let bytes = bytes.get(..layout.size_bytes).unwrap_or(bytes);
        let (timestamp, commit) = bytes.split_first_chunk()?;
        // The upper half of a commit of 8 bytes is the sign of the lower half.
        let commit = u32::from_le_bytes(*commit.first_chunk()?);
        let length_bytes = (commit & RECORDS_LENGTH_MASK) as usize;
        let (records, rest) = bytes
            .get(layout.data_offset..)?
            .split_at_checked(length_bytes)?;
        if records.is_empty() {
            return None;
        }
        Some(Self {
            timestamp_ns: u64::from_le_bytes(*timestamp),
            loss: Loss::from_commit(commit, rest, layout),
            records,
        })
    }

    /// Returns the time of the page, to which its records add.
    pub(crate) const fn timestamp_ns(&self) -> u64 {
        self.timestamp_ns
    }

    /// Returns the events that the kernel has overwritten between the page before and this one.
    pub(crate) const fn lost(&self) -> Loss {
        self.loss
    }

    /// Returns the records, from the oldest to the newest. After an error there are no more.
    #[inline]
    pub(crate) const fn records(&self) -> Records<'p> {
        Records {
            timestamp_ns: self.timestamp_ns,
            rest: self.records,
        }
    }
}

/// Events that the kernel has overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No events are lost.
    None,
    /// This number of events is lost.
    Counted(u64),
    /// Events are lost, and the page had no room for their number.
    Uncounted,
}

impl Loss {
    /// Reads the loss before a page. `rest` is the part of the page behind its records.
    fn from_commit(commit: u32, rest: &[u8], layout: &PageLayout) -> Self {
        if commit & EVENTS_WERE_LOST == 0 {
            return Self::None;
        }
        if commit & LOSS_IS_COUNTED == 0 {
            return Self::Uncounted;
        }
        // The kernel's counter is signed, and negative if the kernel has lost count.
        let count = match layout.commit_bytes {
            4 => rest.first_chunk().map(|&c| i32::from_le_bytes(c).into()),
            _ => rest.first_chunk().map(|&c| i64::from_le_bytes(c)),
        };
        match count.and_then(|count| u64::try_from(count).ok()) {
            Some(count) if count > 0 => Self::Counted(count),
            _ => Self::Uncounted,
        }
    }
}

/// A record that is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'p> {
    /// The time of the event, by the clock of the buffer.
    pub(crate) timestamp_ns: u64,
    /// The event, which begins with its id. In a record of a page there are at least the 2 bytes of
    /// the id.
    pub(crate) payload: &'p [u8],
}

impl Record<'_> {
    /// Returns the id of the event's format, or 0, which is no format, if there is no id.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.payload
            .first_chunk()
            .map_or(0, |&id| u16::from_le_bytes(id))
    }
}

/// Iterates over the events of a page.
#[derive(Clone, Debug)]
pub(crate) struct Records<'p> {
    /// The time of the record before, or of the page.
    timestamp_ns: u64,
    rest: &'p [u8],
}

impl<'p> Iterator for Records<'p> {
    type Item = Result<Record<'p>, PageError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let record = self.take_event().transpose();
        if let Some(Err(_)) = record {
            // Behind a broken record it is unknown where the next one begins.
            self.rest = &[];
        }
        record
    }
}

impl FusedIterator for Records<'_> {}

impl<'p> Records<'p> {
    /// Takes records up to the next event, and the event. Returns `None` at the end of the page.
    #[inline]
    fn take_event(&mut self) -> Result<Option<Record<'p>>, PageError> {
        while !self.rest.is_empty() {
            let head = self.take_word().ok_or(PageError::ShortEventHeader)?;
            let delta = u64::from(head >> KIND_BITS);
            let data_bytes = match head & ((1 << KIND_BITS) - 1) {
                TIME_STAMP => {
                    let high = self.take_word().ok_or(PageError::ShortTimeStamp)?;
                    let absolute = delta | u64::from(high) << DELTA_BITS;
                    self.timestamp_ns = complete_absolute(absolute, self.timestamp_ns);
                    continue;
                }
                TIME_EXTEND => {
                    let high = self.take_word().ok_or(PageError::ShortTimeExtend)?;
                    self.advance(delta | u64::from(high) << DELTA_BITS);
                    continue;
                }
                PADDING => {
                    self.advance(delta);
                    self.skip_padding(delta)?;
                    continue;
                }
                LONG_DATA => {
                    let length = self.take_word().ok_or(PageError::ShortDataLength)? as usize;
                    match length.checked_sub(LENGTH_BYTES) {
                        Some(data_bytes) => data_bytes,
                        // Some kernels fill the end of a page with zeros, and count them.
                        None if length == 0 => return Err(PageError::ZeroDataLength),
                        None => return Err(PageError::InvalidDataLength),
                    }
                }
                words => words as usize * 4,
            };
            let (payload, rest) = self
                .rest
                .split_at_checked(data_bytes)
                .ok_or(PageError::EndOverflow)?;
            if payload.len() < size_of::<u16>() {
                return Err(PageError::ShortEventId);
            }
            self.rest = rest;
            self.advance(delta);
            return Ok(Some(Record {
                timestamp_ns: self.timestamp_ns,
                payload,
            }));
        }
        Ok(None)
    }

    fn take_word(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn advance(&mut self, delta_ns: u64) {
        // Only a forged time wraps.
        self.timestamp_ns = self.timestamp_ns.wrapping_add(delta_ns);
    }

    /// Skips the rest of a discarded record, whose head is taken.
    fn skip_padding(&mut self, delta: u64) -> Result<(), PageError> {
        // The kernel gives each discarded record a time. Without one, it is the filling behind the
        // last record, which the length of the records does not include.
        if delta == 0 {
            return Err(PageError::NullPadding);
        }
        let length = self.take_word().ok_or(PageError::ShortPaddingLength)? as usize;
        let skipped = length
            .checked_sub(LENGTH_BYTES)
            .ok_or(PageError::InvalidPaddingLength)?;
        // If the padding is longer than the page, no records follow.
        self.rest = self.rest.get(skipped..).unwrap_or_default();
        Ok(())
    }
}

/// Completes the low 59 bits of a time by the top bits of the time before. The result is the time
/// nearest to the time before, or later.
#[inline]
fn complete_absolute(low: u64, before_ns: u64) -> u64 {
    let completed = (before_ns >> ABSOLUTE_BITS) << ABSOLUTE_BITS | low;
    // The time has passed a multiple of 2^59 since.
    if before_ns.saturating_sub(completed) > 1 << (ABSOLUTE_BITS - 1) {
        completed.wrapping_add(1 << ABSOLUTE_BITS)
    } else {
        completed
    }
}

/// A page is not laid out as the kernel lays out its pages. The events before the broken record are
/// valid, and the rest of the page is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageError {
    /// The page has no records, or its records end behind the page.
    InvalidHeader,
    /// The records end within the head of a record.
    ShortEventHeader,
    /// A discarded record has no time.
    NullPadding,
    /// The records end within the length of a discarded record.
    ShortPaddingLength,
    /// The length of a discarded record does not include itself.
    InvalidPaddingLength,
    /// The records end within a time difference.
    ShortTimeExtend,
    /// The records end within an absolute time.
    ShortTimeStamp,
    /// The records end within the length of an event.
    ShortDataLength,
    /// The length of an event is 0.
    ZeroDataLength,
    /// The length of an event does not include itself.
    InvalidDataLength,
    /// An event is too short for its id.
    ShortEventId,
    /// An event ends behind the records.
    EndOverflow,
}

impl PageError {
    /// Returns the error as it is recorded in a trace.
    pub(crate) const fn status(self) -> FtraceParseStatus {
        match self {
            Self::InvalidHeader => FtraceParseStatus::FTRACE_STATUS_ABI_INVALID_PAGE_HEADER,
            Self::ShortEventHeader => FtraceParseStatus::FTRACE_STATUS_ABI_SHORT_EVENT_HEADER,
            Self::NullPadding => FtraceParseStatus::FTRACE_STATUS_ABI_NULL_PADDING,
            Self::ShortPaddingLength => FtraceParseStatus::FTRACE_STATUS_ABI_SHORT_PADDING_LENGTH,
            Self::InvalidPaddingLength => {
                FtraceParseStatus::FTRACE_STATUS_ABI_INVALID_PADDING_LENGTH
            }
            Self::ShortTimeExtend => FtraceParseStatus::FTRACE_STATUS_ABI_SHORT_TIME_EXTEND,
            Self::ShortTimeStamp => FtraceParseStatus::FTRACE_STATUS_ABI_SHORT_TIME_STAMP,
            Self::ShortDataLength => FtraceParseStatus::FTRACE_STATUS_ABI_SHORT_DATA_LENGTH,
            Self::ZeroDataLength => FtraceParseStatus::FTRACE_STATUS_ABI_ZERO_DATA_LENGTH,
            Self::InvalidDataLength => FtraceParseStatus::FTRACE_STATUS_ABI_INVALID_DATA_LENGTH,
            Self::ShortEventId => FtraceParseStatus::FTRACE_STATUS_ABI_SHORT_EVENT_ID,
            Self::EndOverflow => FtraceParseStatus::FTRACE_STATUS_ABI_END_OVERFLOW,
        }
    }
}

impl Error for PageError {}

impl Display for PageError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let problem = match self {
            Self::InvalidHeader => "the length of the records is 0 or exceeds the page",
            Self::ShortEventHeader => "the records end within the head of a record",
            Self::NullPadding => "a discarded record has no time",
            Self::ShortPaddingLength => "the records end within the length of a discarded record",
            Self::InvalidPaddingLength => "the length of a discarded record is less than 4",
            Self::ShortTimeExtend => "the records end within a time difference",
            Self::ShortTimeStamp => "the records end within an absolute time",
            Self::ShortDataLength => "the records end within the length of an event",
            Self::ZeroDataLength => "the length of an event is 0",
            Self::InvalidDataLength => "the length of an event is less than 4",
            Self::ShortEventId => "an event is too short for its id",
            Self::EndOverflow => "an event exceeds the records",
        };
        write!(
            f,
            "page of the kernel's buffer: {problem}; the rest of the page is skipped"
        )
    }
}

#[cfg(test)]
mod tests;
