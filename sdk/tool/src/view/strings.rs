//! The strings of a page, each stored once.

use std::collections::HashMap;
use std::rc::Rc;

/// The place of a string in the table. 0 is the empty string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StringId(pub(crate) u32);

/// Strings in the order in which they came.
#[derive(Debug)]
pub(crate) struct StringTable {
    list: Vec<Rc<str>>,
    ids: HashMap<Rc<str>, StringId>,
}

impl Default for StringTable {
    fn default() -> Self {
        let mut table = Self {
            list: Vec::new(),
            ids: HashMap::new(),
        };
        table.add("");
        table
    }
}

impl StringTable {
    /// The id of a string, a new one if it is not there yet.
    pub(crate) fn add(&mut self, text: &str) -> StringId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
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
}
