//! The names of a trace, each stored once.

/// The maximum size of all names together. Names beyond it become [`NameId::MANY`].
const TEXT_MAX_BYTES: usize = 64 << 20;
/// The text that replaces names for which there is no room.
const TOO_MANY: &str = "(more names)";

/// The id of a name of the trace. Equal names have equal ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(u32);

/// All names of a trace. Memory is bounded: once a trace has 64 MiB of different names, further
/// names get [`NameId::MANY`].
#[derive(Clone, Debug)]
pub struct NameTable {
    text: String,
    /// The end of each name in `text`. A name begins where the one before it ends.
    ends: Vec<u32>,
    /// A hash table of ids plus one; 0 marks a free slot. The length is a power of two, at most
    /// half of it is used.
    slots: Vec<u32>,
    /// The number of invalid texts: not UTF-8, though the schema requires it.
    invalid_texts: u64,
}

impl NameId {
    /// The id for no name. Its text is empty.
    pub const NONE: Self = Self(0);
    /// The id of all names for which there is no room.
    pub const MANY: Self = Self(1);

    /// Returns the id as an index. Ids count from 0 without gaps.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the id with this [index](Self::index).
    #[must_use]
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// Returns true if this is [`NameId::NONE`].
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl Default for NameTable {
    fn default() -> Self {
        let mut table = Self {
            text: String::new(),
            ends: Vec::new(),
            slots: vec![0; 64],
            invalid_texts: 0,
        };
        table.add("");
        table.add(TOO_MANY);
        table
    }
}

impl NameTable {
    /// Creates a table that contains only [`NameId::NONE`] and [`NameId::MANY`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the name with this id. Empty if the id is not of this table.
    #[must_use]
    #[inline]
    pub fn text(&self, id: NameId) -> &str {
        let index = id.index();
        let start = index
            .checked_sub(1)
            .and_then(|before| self.ends.get(before));
        let start = start.map_or(0, |start| *start as usize);
        let end = self.ends.get(index).map_or(start, |end| *end as usize);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the number of names. Ids are smaller than this.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns false, because the empty name is always there.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the id of a name, if the table has the name so far.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NameId> {
        let mask = self.slots.len() - 1;
        let mut slot = hash(name.as_bytes()) as usize & mask;
        loop {
            let id = NameId(self.slots[slot].checked_sub(1)?);
            if self.text(id) == name {
                return Some(id);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Returns the id of a name. Adds the name if it is new.
    #[inline]
    pub fn intern(&mut self, name: &str) -> NameId {
        self.find(name).unwrap_or_else(|| self.add(name))
    }

    /// Returns the id of a text that need not be UTF-8. Invalid bytes become replacement
    /// characters.
    #[inline]
    pub(super) fn intern_bytes(&mut self, name: &[u8]) -> NameId {
        match str::from_utf8(name) {
            Ok(name) => self.intern(name),
            Err(_) => self.intern(&String::from_utf8_lossy(name)),
        }
    }

    /// Returns the id of a text of a `string` field. If it is not UTF-8, counts it as invalid, and
    /// invalid bytes become replacement characters.
    #[inline]
    pub(super) fn intern_string(&mut self, name: &[u8]) -> NameId {
        match str::from_utf8(name) {
            Ok(name) => self.intern(name),
            Err(_) => {
                self.invalid_texts += 1;
                self.intern(&String::from_utf8_lossy(name))
            }
        }
    }

    /// Returns the number of invalid texts: not UTF-8, though the schema requires it.
    pub(super) const fn invalid_texts(&self) -> u64 {
        self.invalid_texts
    }

    fn add(&mut self, name: &str) -> NameId {
        if self.text.len() + name.len() > TEXT_MAX_BYTES {
            return NameId::MANY;
        }
        let id = self.ends.len() as u32;
        self.text.push_str(name);
        self.ends.push(self.text.len() as u32);
        if 2 * self.ends.len() > self.slots.len() {
            self.slots = vec![0; 2 * self.slots.len()];
            for index in 0..id {
                self.enter(index);
            }
        }
        self.enter(id);
        NameId(id)
    }

    fn enter(&mut self, id: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = hash(self.text(NameId(id)).as_bytes()) as usize & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = id + 1;
    }
}

/// Hashes eight bytes at a time, and mixes the high bits into the low ones, which select the slot.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut state = bytes.len() as u64;
    for word in words.iter().chain([&last]) {
        state = (state ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
        state ^= state >> 29;
    }
    state ^ state >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_equal_ids() {
        let mut names = NameTable::new();
        let ids: Vec<_> = (0..1000)
            .map(|n| names.intern(&format!("name {n}")))
            .collect();
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(names.text(*id), format!("name {n}"));
            assert_eq!(names.intern(&format!("name {n}")), *id);
        }
        assert_eq!(names.len(), 1002);
        assert_eq!(names.find("other"), None);
        assert_eq!(names.intern(""), NameId::NONE);
    }

    #[test]
    fn invalid_utf8_becomes_replacement_characters() {
        let mut names = NameTable::new();
        let id = names.intern_bytes(b"a\xffb");
        assert_eq!(names.text(id), "a\u{fffd}b");
    }

    #[test]
    fn names_beyond_the_limit_share_one_id() {
        let mut names = NameTable::new();
        let long = "x".repeat(TEXT_MAX_BYTES / 2);
        assert_ne!(names.intern(&long), NameId::MANY);
        assert_eq!(names.intern(&(long + "y")), NameId::MANY);
        assert_eq!(names.text(NameId::MANY), TOO_MANY);
        assert_ne!(names.intern("short"), NameId::MANY);
    }
}
