//! The arguments of events: sets of keys and values. Each different set is stored once.
//!
//! A set is encoded as its arguments, one after the other. So two sets are joined by joining their
//! bytes:
//!
//! ```text
//! argument:  key (string id, varint) | kind (1 byte) | value
//! values:    0 false, 1 true       nothing
//!            2 unsigned            varint
//!            3 signed              varint, zigzag
//!            4 floating            8 bytes, little-endian
//!            5 string              string id, varint
//!            6 pointer             varint
//!            7 dictionary          how many, varint; then arguments
//!            8 array               as 7, with empty keys
//! ```

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use protozero::append_varint;

use super::columns::zigzag;
use super::strings::StringId;

/// The maximum size of all sets together. Further sets are left out.
const TABLE_MAX_BYTES: usize = 256 << 20;

/// The number of a set in the table, counted from 1. 0 stands for no arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ArgsId(pub(crate) u32);

impl ArgsId {
    pub(crate) const NONE: Self = Self(0);
}

/// A value that is not a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Floating(f64),
    String(StringId),
    Pointer(u64),
}

/// The kind of a list of arguments inside a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Dictionary,
    Array,
}

/// A set that is being written.
#[derive(Debug, Default)]
pub(crate) struct ArgsWriter {
    bytes: Vec<u8>,
}

impl ArgsWriter {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(crate) fn scalar(&mut self, key: StringId, value: Scalar) {
        match value {
            Scalar::Bool(value) => self.begin(key, u8::from(value)),
            Scalar::Unsigned(value) => self.number(key, 2, value),
            Scalar::Signed(value) => self.number(key, 3, zigzag(value)),
            Scalar::Floating(value) => {
                self.begin(key, 4);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
            Scalar::String(id) => self.number(key, 5, u64::from(id.0)),
            Scalar::Pointer(value) => self.number(key, 6, value),
        }
    }

    /// Begins a list. The caller writes its `length` arguments next.
    pub(crate) fn list(&mut self, key: StringId, kind: ListKind, length: usize) {
        let kind = match kind {
            ListKind::Dictionary => 7,
            ListKind::Array => 8,
        };
        self.number(key, kind, length as u64);
    }

    fn number(&mut self, key: StringId, kind: u8, value: u64) {
        self.begin(key, kind);
        self.varint(value);
    }

    fn begin(&mut self, key: StringId, kind: u8) {
        self.varint(u64::from(key.0));
        self.bytes.push(kind);
    }

    fn varint(&mut self, value: u64) {
        append_varint(value, &mut self.bytes);
    }
}

/// All sets, in the order in which they came.
#[derive(Debug)]
pub(crate) struct ArgsTable {
    bytes: Vec<u8>,
    room_bytes: usize,
    left_out: u64,
    /// The end of each set in `bytes`. A set begins where the one before it ends.
    ends: Vec<usize>,
    /// One set for each hash. A different set with the same hash is stored again each time it is
    /// added.
    by_hash: HashMap<u64, ArgsId>,
    hasher: RandomState,
}

impl Default for ArgsTable {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            room_bytes: TABLE_MAX_BYTES,
            left_out: 0,
            ends: Vec::new(),
            by_hash: HashMap::new(),
            hasher: RandomState::new(),
        }
    }
}

impl ArgsTable {
    /// Returns the id of a set, which is added if it is new.
    pub(crate) fn add(&mut self, set: &ArgsWriter) -> ArgsId {
        self.add_bytes(&set.bytes)
    }

    /// Returns a set with the arguments of two sets.
    pub(crate) fn join(&mut self, first: ArgsId, second: ArgsId) -> ArgsId {
        if first == ArgsId::NONE {
            return second;
        }
        if second == ArgsId::NONE {
            return first;
        }
        let joined = [self.bytes_of(first), self.bytes_of(second)].concat();
        self.add_bytes(&joined)
    }

    /// Returns the number of sets that were left out for want of room.
    pub(crate) const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the bytes of a set.
    pub(crate) fn bytes_of(&self, id: ArgsId) -> &[u8] {
        let Some(index) = (id.0 as usize).checked_sub(1) else {
            return &[];
        };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> ArgsId {
        if bytes.is_empty() {
            return ArgsId::NONE;
        }
        let mut hasher = self.hasher.build_hasher();
        hasher.write(bytes);
        let hash = hasher.finish();
        if let Some(id) = self.by_hash.get(&hash)
            && self.bytes_of(*id) == bytes
        {
            return *id;
        }
        let Some(room_bytes) = self.room_bytes.checked_sub(bytes.len()) else {
            self.left_out += 1;
            return ArgsId::NONE;
        };
        self.room_bytes = room_bytes;
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        let id = ArgsId(u32::try_from(self.ends.len()).unwrap_or(u32::MAX));
        self.by_hash.insert(hash, id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(value: u64) -> ArgsWriter {
        let mut writer = ArgsWriter::default();
        writer.scalar(StringId(1), Scalar::Unsigned(value));
        writer
    }

    #[test]
    fn equal_sets_are_stored_once() {
        let mut table = ArgsTable::default();
        let first = table.add(&set(300));
        assert_eq!(table.add(&set(300)), first);
        assert_ne!(table.add(&set(301)), first);
        assert_eq!(table.bytes_of(first), [1, 2, 0xac, 0x02]);
        assert_eq!(table.add(&ArgsWriter::default()), ArgsId::NONE);
        assert_eq!(table.ends.len(), 2);
    }

    #[test]
    fn sets_beyond_the_limit_are_left_out() {
        let mut table = ArgsTable {
            room_bytes: 3,
            ..ArgsTable::default()
        };
        let first = table.add(&set(1));
        assert_eq!(table.add(&set(2)), ArgsId::NONE);
        assert_eq!(table.add(&set(1)), first);
        assert_eq!(table.left_out(), 1);
    }

    #[test]
    fn a_joined_set_has_the_arguments_of_both() {
        let mut table = ArgsTable::default();
        let (first, second) = (table.add(&set(1)), table.add(&set(2)));
        let joined = table.join(first, second);
        assert_eq!(table.bytes_of(joined), [1, 2, 1, 1, 2, 2]);
        assert_eq!(table.join(ArgsId::NONE, second), second);
        assert_eq!(table.join(first, ArgsId::NONE), first);
    }

    #[test]
    fn lists_say_their_length_before_their_arguments() {
        let mut writer = ArgsWriter::default();
        writer.list(StringId(1), ListKind::Array, 1);
        writer.scalar(StringId(0), Scalar::Signed(-1));
        writer.scalar(StringId(2), Scalar::Bool(true));
        writer.scalar(StringId(3), Scalar::Floating(1.0));
        let mut table = ArgsTable::default();
        let id = table.add(&writer);
        let bytes = [1, 8, 1, 0, 3, 1, 2, 1, 3, 4, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
        assert_eq!(table.bytes_of(id), bytes);
    }
}
