//! Data of open slices that most slices do not need.

use std::num::NonZeroU32;

use crate::flow::Flow;

/// The maximum capacity of a name's buffer that is kept for later slices.
const KEPT_NAME_BYTES: usize = 1024;

/// Data of a slice.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    /// The name, as in [`Piece::name`](crate::pieces::Piece::name).
    pub(super) name: String,
    /// The flow, as in [`Piece::flow`](crate::pieces::Piece::flow).
    pub(super) flow: Option<Flow>,
    /// The rank of the slice, if it differs from its position.
    pub(super) rank: Option<u32>,
}

/// The details of the slices of a thread, by their positions in its stack.
pub(super) struct DetailsTable {
    /// By ascending position. Some are of slices that have ended.
    entries: Vec<(NonZeroU32, Details)>,
    /// The number of valid entries; the others are kept for their memory.
    len: usize,
}

impl DetailsTable {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            len: 0,
        }
    }

    /// Stores the details of the next slice. Entries from its position on are of slices that have
    /// ended.
    pub(super) fn keep(&mut self, position: NonZeroU32, name: &str, flow: Option<Flow>) {
        while let Some(last) = self.len.checked_sub(1)
            && self
                .entries
                .get(last)
                .is_some_and(|(it, _)| *it >= position)
        {
            self.len = last;
        }
        if self.len == self.entries.len() {
            self.entries.push((position, Details::default()));
        }
        if let Some((of, details)) = self.entries.get_mut(self.len) {
            *of = position;
            details.flow = flow;
            details.rank = None;
            if details.name.capacity() > KEPT_NAME_BYTES {
                details.name = String::new();
            }
            details.name.clear();
            details.name.push_str(name);
            self.len += 1;
        }
    }

    /// Stores the details of an open slice.
    pub(super) fn put(&mut self, position: NonZeroU32, details: Details) {
        self.entries.truncate(self.len);
        match self.find(position) {
            Ok(at) => self.entries[at].1 = details,
            Err(at) => self.entries.insert(at, (position, details)),
        }
        self.len = self.entries.len();
    }

    /// Returns the details of a slice that has some.
    pub(super) fn get(&self, position: NonZeroU32) -> Option<&Details> {
        let at = self.find(position).ok()?;
        Some(&self.entries.get(at)?.1)
    }

    fn find(&self, position: NonZeroU32) -> Result<usize, usize> {
        let valid = self.entries.get(..self.len).unwrap_or_default();
        valid.binary_search_by_key(&position, |(of, _)| *of)
    }
}
