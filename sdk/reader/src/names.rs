//! The names of a trace, each stored once.

/// Text that is remembered, in bytes. Names beyond it all become one.
const TEXT_MAX_BYTES: usize = 64 << 20;
/// What stands for names for which there is no room.
const TOO_MANY: &str = "(more names)";

/// A name of the trace. Equal names have equal ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(u32);

/// All names of a trace. Memory is bounded: a trace that has more than 64 MiB of different names
/// gets [`NameId::MANY`] for the rest.
#[derive(Clone, Debug)]
pub struct NameTable {
    text: String,
    /// Where each name ends in `text`; it begins where the one before ends.
    ends: Vec<u32>,
    /// Ids plus one, by hash; 0 is free. A power of two in length, at most half full.
    slots: Vec<u32>,
    /// Texts that were not UTF-8.
    mended: u64,
}

impl NameId {
    /// No name, which reads as an empty one.
    pub const NONE: Self = Self(0);
    /// One of the names for which there was no room.
    pub const MANY: Self = Self(1);

    /// Counts from 0, without gaps.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// Whether there is no name.
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
            mended: 0,
        };
        table.add("");
        table.add(TOO_MANY);
        table
    }
}

impl NameTable {
    /// A table with no names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The name with an id; an empty one if the id is not of this table.
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

    /// How many names there are; their ids count up to here.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never: there is always the empty name.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The id of a name, if it is in the trace so far.
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

    /// The id of a name, which is added if it is new.
    #[inline]
    pub fn id(&mut self, name: &str) -> NameId {
        self.find(name).unwrap_or_else(|| self.add(name))
    }

    /// The id of a text that may not be UTF-8, with replacement characters if it is not.
    #[inline]
    pub(super) fn id_of_bytes(&mut self, name: &[u8]) -> NameId {
        match str::from_utf8(name) {
            Ok(name) => self.id(name),
            Err(_) => self.id(&String::from_utf8_lossy(name)),
        }
    }

    /// The same for a field that has to be UTF-8.
    #[inline]
    pub(super) fn id_of_string(&mut self, name: &[u8]) -> NameId {
        match str::from_utf8(name) {
            Ok(name) => self.id(name),
            Err(_) => {
                self.mended += 1;
                self.id(&String::from_utf8_lossy(name))
            }
        }
    }

    /// How many texts were not UTF-8, though they have to be.
    pub(super) const fn mended(&self) -> u64 {
        self.mended
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

/// Eight bytes at a time; spread, so that the low bits are good.
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
    fn equal_names_have_equal_ids_and_ids_lead_back() {
        let mut names = NameTable::new();
        let ids: Vec<_> = (0..1000).map(|n| names.id(&format!("name {n}"))).collect();
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(names.text(*id), format!("name {n}"));
            assert_eq!(names.id(&format!("name {n}")), *id);
        }
        assert_eq!(names.len(), 1002);
        assert_eq!(names.find("other"), None);
        assert_eq!(names.id(""), NameId::NONE);
    }

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        let mut names = NameTable::new();
        let id = names.id_of_bytes(b"a\xffb");
        assert_eq!(names.text(id), "a\u{fffd}b");
    }

    #[test]
    fn names_beyond_the_limit_are_one() {
        let mut names = NameTable::new();
        let long = "x".repeat(TEXT_MAX_BYTES / 2);
        assert_ne!(names.id(&long), NameId::MANY);
        assert_eq!(names.id(&(long + "y")), NameId::MANY);
        assert_eq!(names.text(NameId::MANY), TOO_MANY);
        assert_ne!(names.id("short"), NameId::MANY);
    }
}
