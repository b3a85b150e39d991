//! One field of an event: read at an offset, append under a tag.

use std::ffi::CStr;

use super::InvalidRecord;
use crate::ftrace::encoding::{Tag, append_bytes, append_name, append_number};
use crate::ftrace::field_type::{ARGUMENTS_COUNT, FieldType, LOCATION_BYTES};
use crate::ftrace::format::Field;
use crate::ftrace::printk_formats::PrintkFormats;
use crate::ftrace::symbols::SymbolIndexes;
use crate::seen_threads::SeenThreads;

/// How to write one field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    tag: Tag,
    field_type: FieldType,
    /// Where the field begins in the record.
    offset: u32,
    /// The fixed part of a record of this event has at least `offset + size` bytes.
    size: u32,
}

/// A record, and what else the values of its fields depend on.
pub(super) struct Source<'a> {
    pub(super) record: &'a [u8],
    pub(super) seen: &'a mut SeenThreads,
    pub(super) symbols: &'a mut SymbolIndexes,
    pub(super) texts: &'a PrintkFormats,
}

impl Step {
    pub(super) fn new(tag: Tag, field_type: FieldType, field: &Field) -> Self {
        Self {
            tag,
            field_type,
            offset: field.offset,
            size: field.size,
        }
    }

    /// Returns the offset behind the fixed part of the field.
    pub(super) fn end(&self) -> u32 {
        self.offset + self.size
    }

    /// Appends the field to `out`.
    #[inline(always)]
    pub(super) fn append(
        &self,
        source: &mut Source<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidRecord> {
        let appended = self.try_append(source, out);
        appended.ok_or_else(|| InvalidRecord::outside(source.record, self.offset))
    }

    /// Appends the field, or returns `None` if it lies outside of the record.
    #[inline(always)]
    fn try_append(&self, source: &mut Source<'_>, out: &mut Vec<u8>) -> Option<()> {
        let (record, offset) = (source.record, self.offset);
        let number = match self.field_type {
            FieldType::Uint8 => u8::from_le_bytes(bytes_at(record, offset)?).into(),
            FieldType::Uint16 => u16::from_le_bytes(bytes_at(record, offset)?).into(),
            FieldType::Uint32 => u32::from_le_bytes(bytes_at(record, offset)?).into(),
            FieldType::Uint64 => u64::from_le_bytes(bytes_at(record, offset)?),
            FieldType::Int8 => extended(i8::from_le_bytes(bytes_at(record, offset)?)),
            FieldType::Int16 => extended(i16::from_le_bytes(bytes_at(record, offset)?)),
            FieldType::Int32 => extended(i32::from_le_bytes(bytes_at(record, offset)?)),
            FieldType::Int64 => u64::from_le_bytes(bytes_at(record, offset)?),
            FieldType::Pid => {
                let pid = thread_at(record, offset)?;
                source.seen.see(pid);
                extended(pid)
            }
            FieldType::FixedText => {
                let field = record.get(offset as usize..)?.get(..self.size as usize)?;
                match field.as_array() {
                    Some(name) => append_name(out, self.tag, *name),
                    None => append_bytes(out, self.tag, until_nul(field)),
                }
                return Some(());
            }
            FieldType::Arguments64 => {
                let words = record.get(offset as usize..)?;
                let words = words.first_chunk::<{ 8 * ARGUMENTS_COUNT }>()?;
                for word in words.as_chunks().0 {
                    append_number(out, self.tag, u64::from_le_bytes(*word));
                }
                return Some(());
            }
            _ => return self.append_rare(source, out),
        };
        append_number(out, self.tag, number);
        Some(())
    }

    /// Does what [`try_append`](Self::try_append) does, for types that frequent events lack.
    #[inline(never)]
    fn append_rare(&self, source: &mut Source<'_>, out: &mut Vec<u8>) -> Option<()> {
        let (record, offset) = (source.record, self.offset);
        let narrow = || Some(u32::from_le_bytes(bytes_at(record, offset)?).into());
        let wide = || Some(u64::from_le_bytes(bytes_at(record, offset)?));
        let number = match self.field_type {
            FieldType::Device32 => device_for_programs(narrow()?),
            FieldType::Device64 => device_for_programs(wide()?),
            FieldType::Symbol32 => source.symbols.index(narrow()?).into(),
            FieldType::Symbol64 => source.symbols.index(wide()?).into(),
            FieldType::Arguments32 => {
                let words = record.get(offset as usize..)?;
                let words = words.first_chunk::<{ 4 * ARGUMENTS_COUNT }>()?;
                for word in words.as_chunks().0 {
                    append_number(out, self.tag, u32::from_le_bytes(*word).into());
                }
                return Some(());
            }
            _ => {
                let value = match self.field_type {
                    FieldType::OpenText => until_nul(record.get(offset as usize..)?),
                    FieldType::TextPointer32 => source.texts.text(narrow()?).as_bytes(),
                    FieldType::TextPointer64 => source.texts.text(wide()?).as_bytes(),
                    FieldType::TextAt => until_nul(located(record, offset, 0)?),
                    FieldType::BytesAt => located(record, offset, 0)?,
                    FieldType::TextBehind => {
                        until_nul(located(record, offset, offset + LOCATION_BYTES)?)
                    }
                    FieldType::BytesBehind => located(record, offset, offset + LOCATION_BYTES)?,
                    // The others are in `try_append`.
                    _ => return None,
                };
                append_bytes(out, self.tag, value);
                return Some(());
            }
        };
        append_number(out, self.tag, number);
        Some(())
    }
}

/// Returns the id of a thread at `offset`.
#[inline(always)]
pub(super) fn thread_at(record: &[u8], offset: u32) -> Option<i32> {
    Some(i32::from_le_bytes(bytes_at(record, offset)?))
}

/// Returns the bytes at `offset`, or `None` if they are not all in the record.
#[inline(always)]
pub(super) fn bytes_at<const N: usize>(record: &[u8], offset: u32) -> Option<[u8; N]> {
    record.get(offset as usize..)?.first_chunk().copied()
}

/// Returns the bytes that a location at `offset` refers to. The location counts from `origin`.
fn located(record: &[u8], offset: u32, origin: u32) -> Option<&[u8]> {
    let location = u32::from_le_bytes(bytes_at(record, offset)?);
    let (start, len) = (location & 0xffff, location >> 16);
    if len == 0 {
        return Some(&[]);
    }
    let start = origin.checked_add(start)? as usize;
    record.get(start..)?.get(..len as usize)
}

#[inline(always)]
fn extended(number: impl Into<i64>) -> u64 {
    number.into() as u64
}

/// Returns `text` up to its first NUL. Some kernels leave out the NUL.
fn until_nul(text: &[u8]) -> &[u8] {
    CStr::from_bytes_until_nul(text).map_or(text, CStr::to_bytes)
}

/// Converts the number of a device from the kernel's form to the one that programs know.
fn device_for_programs(device: u64) -> u64 {
    let (major, minor) = (device >> 20, device & 0xf_ffff);
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_the_form_that_programs_know() {
        assert_eq!(device_for_programs(271_581_216), 66336);
        assert_eq!(device_for_programs(4_442_450_946), 17_594_983_681_026);
    }
}
