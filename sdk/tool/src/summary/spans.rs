//! What is counted by name: spans and instants.

use tracezero::reader::NameId;

use super::histogram::Histogram;

/// Rows that are kept apart in one table. Names that are made up for each event would fill any memory.
const MAX_ROWS: usize = 50_000;
/// No row.
const NONE: u32 = u32::MAX;

/// Rows by name and category.
#[derive(Debug)]
pub(super) struct ByName<T> {
    rows: Vec<Row<T>>,
    /// For each name the first of its rows, by the name's index.
    first: Vec<u32>,
    /// What all names share that came when there were too many.
    others: T,
    other_names: bool,
}

#[derive(Debug)]
pub(super) struct Row<T> {
    pub(super) name: NameId,
    pub(super) category: NameId,
    pub(super) value: T,
    /// The next row with the same name.
    next: u32,
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
            others: T::default(),
            other_names: false,
        }
    }
}

impl<T: Default> ByName<T> {
    #[inline]
    pub(super) fn row(&mut self, name: NameId, category: NameId) -> &mut T {
        let mut index = self.first.get(name.index()).copied().unwrap_or(NONE);
        while let Some(row) = self.rows.get(index as usize) {
            if row.category == category {
                // Looked up once more: the borrow checker does not see that the loop ends here.
                return &mut self.rows[index as usize].value;
            }
            index = row.next;
        }
        self.add(name, category)
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
        let first = &mut self.first[name.index()];
        self.rows.push(Row {
            name,
            category,
            value: T::default(),
            next: std::mem::replace(first, index as u32),
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
