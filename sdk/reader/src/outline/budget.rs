//! Limits of the size of an outline.

/// The maximum number of open slices on all tracks together. Further ones are left out.
const OPEN_MAX: usize = 1 << 16;

/// The maximum number of different names under which left-out siblings are counted, over all
/// tracks.
pub(super) const NAMES_MAX: usize = 1 << 16;

/// The maximum size of the texts of all nodes.
const TEXT_MAX_BYTES: usize = 256 << 20;

/// The size that an outline may still grow by, over all tracks.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) left: Size,
    pub(super) open_left: usize,
}

/// The size of some nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) nodes: usize,
    pub(super) text_bytes: usize,
    /// The number of names under which left-out siblings are counted.
    pub(super) names: usize,
}

impl Budget {
    pub(super) const fn new(nodes: usize) -> Self {
        Self {
            left: Size {
                nodes,
                text_bytes: TEXT_MAX_BYTES,
                names: NAMES_MAX,
            },
            open_left: OPEN_MAX,
        }
    }

    /// Subtracts `size`. Returns false, and subtracts nothing, if less is left.
    pub(super) fn take(&mut self, size: Size) -> bool {
        match self.left.checked_sub(size) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }

    pub(super) fn give_back(&mut self, size: Size) {
        self.left = self.left.plus(size);
    }
}

impl Size {
    pub(super) fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self {
            nodes: self.nodes.checked_sub(other.nodes)?,
            text_bytes: self.text_bytes.checked_sub(other.text_bytes)?,
            names: self.names.checked_sub(other.names)?,
        })
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes + other.nodes,
            text_bytes: self.text_bytes + other.text_bytes,
            names: self.names + other.names,
        }
    }

    pub(super) fn of_name(name: &str) -> Self {
        Self {
            nodes: 0,
            text_bytes: name.len(),
            names: 1,
        }
    }
}
