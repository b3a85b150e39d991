//! What is counted by name: spans and instants.

use std::collections::HashMap;

use tracezero_reader::NameId;

use super::histogram::Histogram;

/// Rows that are kept apart in one table. Names that are made up for each event would fill any memory.
const MAX_ROWS: usize = 50_000;
/// No row.
const NONE: u32 = u32::MAX;

/// Rows by name and category.
#[derive(Debug)]
pub(super) struct ByName<T> {
    rows: Vec<Row<T>>,
    /// For each name the first of its rows, by the name's index. Most names have no other.
    first: Vec<u32>,
    /// Rows of names that have several.
    further: HashMap<(NameId, NameId), u32>,
    /// What all names share that came when there were too many.
    others: T,
    other_names: bool,
}

#[derive(Debug)]
pub(super) struct Row<T> {
    pub(super) name: NameId,
    pub(super) category: NameId,
    pub(super) value: T,
}

/// How long spans took.
#[derive(Clone, Debug, Default)]
pub(super) struct Durations {
    pub(super) count: u64,
    pub(super) total_ns: u64,
    /// Without the spans inside of them.
    pub(super) self_ns: u64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
    pub(super) histogram: Histogram,
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
    pub(super) fn row(&mut self, name: NameId, category: NameId) -> &mut T {
        let first = self.first.get(name.index()).copied().unwrap_or(NONE) as usize;
        match self.rows.get(first) {
            None => self.add(name, category),
            // Looked up once more: the borrow checker does not see that the row is not used otherwise.
            Some(row) if row.category == category => &mut self.rows[first].value,
            Some(_) => self.further_row(name, category),
        }
    }

    /// The row of a name that has one for another category.
    fn further_row(&mut self, name: NameId, category: NameId) -> &mut T {
        match self.further.get(&(name, category)) {
            Some(index) => &mut self.rows[*index as usize].value,
            None => self.add(name, category),
        }
    }

    #[cold]
    fn add(&mut self, name: NameId, category: NameId) -> &mut T {
        if self.rows.len() >= MAX_ROWS {
            self.other_names = true;
            return &mut self.others;
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

    pub(super) fn rows(&self) -> &[Row<T>] {
        &self.rows
    }

    /// What the names share that were too many.
    pub(super) fn others(&self) -> Option<&T> {
        self.other_names.then_some(&self.others)
    }
}

impl Durations {
    #[inline]
    pub(super) fn add(&mut self, duration_ns: u64, self_ns: u64) {
        self.min_ns = match self.count {
            0 => duration_ns,
            _ => self.min_ns.min(duration_ns),
        };
        self.max_ns = self.max_ns.max(duration_ns);
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(duration_ns);
        self.self_ns = self.self_ns.saturating_add(self_ns);
        self.histogram.add(duration_ns);
    }

    pub(super) fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }

    /// The duration that the fraction `quantile` of all does not exceed: exact if it is the first or
    /// the last, else within 1.6 %.
    pub(super) fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = (self.count as f64 * quantile).ceil() as u64;
        match rank {
            ..=1 => self.min_ns,
            rank if rank >= self.count => self.max_ns,
            rank => self
                .histogram
                .value_at(rank)
                .clamp(self.min_ns, self.max_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracezero_reader::NameTable;

    use super::*;

    #[test]
    fn a_name_has_a_row_for_each_of_its_categories() {
        let mut names = NameTable::new();
        let [read, io, net] = ["read", "io", "net"].map(|name| names.id(name));
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
            let category = names.id(&number.to_string());
            *rows.row(NameId::NONE, category) += 1;
        }
        assert_eq!((rows.rows().len(), rows.others()), (MAX_ROWS, Some(&3)));
    }
}
