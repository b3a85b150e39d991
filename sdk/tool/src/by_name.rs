//! Counts by name and category.

use std::collections::HashMap;

use tracezero_reader::NameId;

/// The maximum number of rows in a table. The limit is needed because a program that generates a
/// new name for each event would fill any memory.
const MAX_ROWS: usize = 50_000;
/// Stands for no row.
const NONE: u32 = u32::MAX;

/// Rows by name and category.
#[derive(Debug)]
pub(crate) struct ByName<T> {
    rows: Vec<Row<T>>,
    /// The first row of each name, by the name's index. Most names have only one row.
    first: Vec<u32>,
    /// The other rows of names that have several rows, by name and category.
    further: HashMap<(NameId, NameId), u32>,
    /// The value shared by all names beyond the limit.
    others: T,
    other_names: bool,
}

#[derive(Debug)]
pub(crate) struct Row<T> {
    pub(crate) name: NameId,
    pub(crate) category: NameId,
    pub(crate) value: T,
}

impl<T: Default> Default for ByName<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            first: Vec::new(),
            further: HashMap::new(),
            others: T::default(),
            other_names: false,
        }
    }
}

impl<T: Default> ByName<T> {
    #[inline]
    pub(crate) fn row(&mut self, name: NameId, category: NameId) -> &mut T {
        let first = self.first.get(name.index()).copied().unwrap_or(NONE) as usize;
        match self.rows.get(first) {
            None => self.add(name, category),
            // Index again: the borrow checker does not see that `row` is not used further.
            Some(row) if row.category == category => &mut self.rows[first].value,
            Some(_) => self.further_row(name, category),
        }
    }

    /// Returns the row of a name that already has one for another category.
    fn further_row(&mut self, name: NameId, category: NameId) -> &mut T {
        match self.further.get(&(name, category)) {
            Some(index) => &mut self.rows[*index as usize].value,
            None => self.add(name, category),
        }
    }

    #[cold]
    fn add(&mut self, name: NameId, category: NameId) -> &mut T {
        if self.rows.len() >= MAX_ROWS {
            return self.others_mut();
        }
        if self.first.len() <= name.index() {
            self.first.resize(name.index() + 1, NONE);
        }
        let index = self.rows.len();
        match &mut self.first[name.index()] {
            first @ &mut NONE => *first = index as u32,
            _ => drop(self.further.insert((name, category), index as u32)),
        }
        self.rows.push(Row {
            name,
            category,
            value: T::default(),
        });
        &mut self.rows[index].value
    }

    pub(crate) fn rows(&self) -> &[Row<T>] {
        &self.rows
    }

    /// Returns the value shared by all names beyond the limit, to change it.
    pub(crate) fn others_mut(&mut self) -> &mut T {
        self.other_names = true;
        &mut self.others
    }

    /// Returns the value shared by all names beyond the limit, if there are any.
    pub(crate) fn others(&self) -> Option<&T> {
        self.other_names.then_some(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use tracezero_reader::NameTable;

    use super::*;

    #[test]
    fn a_name_has_a_row_for_each_of_its_categories() {
        let mut names = NameTable::new();
        let [read, io, net] = ["read", "io", "net"].map(|name| names.intern(name));
        let mut rows = ByName::<u64>::default();
        for (category, count) in [(io, 1), (net, 2), (io, 4), (net, 8)] {
            *rows.row(read, category) += count;
        }
        *rows.row(io, net) += 16;
        let rows = rows
            .rows()
            .iter()
            .map(|row| (row.name, row.category, row.value));
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows, [(read, io, 5), (read, net, 10), (io, net, 16)]);
    }

    #[test]
    fn rows_beyond_the_limit_are_one_row_for_others() {
        let mut names = NameTable::new();
        let mut rows = ByName::<u64>::default();
        for number in 0..MAX_ROWS + 3 {
            let category = names.intern(&number.to_string());
            *rows.row(NameId::NONE, category) += 1;
        }
        assert_eq!((rows.rows().len(), rows.others()), (MAX_ROWS, Some(&3)));
    }
}
