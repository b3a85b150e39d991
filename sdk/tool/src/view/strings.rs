//! The strings of a page, each stored once. Memory is bounded: long strings are cut, and all
//! strings beyond the limit share one entry.

use std::collections::HashMap;
use std::rc::Rc;

/// The maximum size of a text. Longer ones are cut.
const TEXT_MAX_BYTES: usize = 64 << 10;
/// The maximum size of all texts together.
const TABLE_MAX_BYTES: usize = 256 << 20;
/// The text that replaces texts for which there is no room.
const TOO_MANY: &str = "(more texts)";

/// The number of a string in the table. 0 is the empty string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StringId(pub(crate) u32);

/// The strings of a page, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct StringTable {
    list: Vec<Rc<str>>,
    ids: HashMap<Rc<str>, StringId>,
    room_bytes: usize,
    left_out: u64,
}

impl Default for StringTable {
    fn default() -> Self {
        let mut table = Self {
            list: Vec::new(),
            ids: HashMap::new(),
            room_bytes: TABLE_MAX_BYTES,
            left_out: 0,
        };
        table.insert("");
        table
    }
}

impl StringTable {
    /// Returns the id of a string, which is added if it is new.
    pub(crate) fn add(&mut self, text: &str) -> StringId {
        let text = &text[..text.floor_char_boundary(TEXT_MAX_BYTES)];
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        // Short texts need memory for their entries too.
        let size_bytes = text.len() + 3 * size_of::<Rc<str>>();
        match self.room_bytes.checked_sub(size_bytes) {
            Some(rest) => {
                self.room_bytes = rest;
                self.insert(text)
            }
            None => {
                self.left_out += 1;
                let known = self.ids.get(TOO_MANY).copied();
                known.unwrap_or_else(|| self.insert(TOO_MANY))
            }
        }
    }

    /// Returns how many times there was no room for a text.
    pub(crate) const fn left_out(&self) -> u64 {
        self.left_out
    }

    fn insert(&mut self, text: &str) -> StringId {
        let text: Rc<str> = text.into();
        let id = StringId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(Rc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.list.iter().map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_one_id_and_the_empty_one_is_first() {
        let mut table = StringTable::default();
        assert_eq!(table.add(""), StringId(0));
        let a = table.add("a");
        assert_eq!(table.add("b"), StringId(2));
        assert_eq!(table.add("a"), a);
        assert_eq!(table.iter().collect::<Vec<_>>(), ["", "a", "b"]);
    }

    #[test]
    fn long_texts_are_cut_and_texts_beyond_the_limit_share_one() {
        let mut table = StringTable::default();
        let long = table.add(&"ä".repeat(TEXT_MAX_BYTES));
        assert_eq!(table.iter().last().unwrap().len(), TEXT_MAX_BYTES);
        table.room_bytes = 100;
        let a = table.add("a");
        let too_many = table.add(&"b".repeat(100));
        assert_eq!(table.add(&"c".repeat(100)), too_many);
        assert_eq!(table.add("a"), a);
        assert_eq!(table.add(&"ä".repeat(TEXT_MAX_BYTES)), long);
        assert_eq!(table.iter().last(), Some(TOO_MANY));
        assert_eq!(table.left_out(), 2);
    }
}
