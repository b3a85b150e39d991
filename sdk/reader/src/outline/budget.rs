//! What an outline may take.

/// Slices that may be open on all tracks together. What begins beyond is left out.
const OPEN_MAX: usize = 1 << 16;

/// Different names of siblings that are not shown one by one, over all tracks.
pub(super) const NAMES_MAX: usize = 1 << 16;

/// Text of all nodes.
const TEXT_MAX_BYTES: usize = 256 << 20;

/// What an outline may still take, over all its tracks.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) left: Size,
    pub(super) open_left: usize,
}

/// What some nodes take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) nodes: usize,
    pub(super) text_bytes: usize,
    /// Names of siblings that are not shown.
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

    /// Takes that much away; false if there is less.
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
