//! The size limit of an argument, and how a longer argument is cut.
//!
//! Each argument has a budget, which its texts, names and elements use up. Content beyond the
//! budget is left out, and a mark in its place says how much there was. Arguments that are encoded
//! as a short scalar need no budget: they are always small enough.

use std::cell::Cell;
use std::fmt;

use crate::altered::note_cut_arg;

/// The maximum number of bytes of texts and names in one argument. Each element of a list and each
/// entry of a dictionary counts 8 bytes more.
///
/// A longer text is cut; it then ends with `…` and its full number of bytes. A cut list or
/// dictionary ends with an element that states its full length. The report states how many
/// arguments were cut: `Warning::CutArguments`.
pub const ARG_MAX_BYTES: usize = 64 * 1024;

/// The part of the budget that an element of a list or an entry of a dictionary uses, besides its
/// texts.
pub(super) const ELEMENT_BYTES: usize = 8;

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(Budget::WHOLE) };
}

/// The remaining budget of the argument that the thread is writing.
#[derive(Clone, Copy, Debug)]
struct Budget {
    bytes: usize,
    is_cut: bool,
}

impl Budget {
    const WHOLE: Self = Self {
        bytes: ARG_MAX_BYTES,
        is_cut: false,
    };
}

/// Calls `write`, which writes one argument, with a full budget.
pub(super) fn with_budget<R>(write: impl FnOnce() -> R) -> R {
    /// Restores the budget of the outer argument, whose formatting writes this argument; also after
    /// a panic.
    struct OuterBudget(Budget);

    impl Drop for OuterBudget {
        fn drop(&mut self) {
            if BUDGET.replace(self.0).is_cut {
                note_cut_arg();
            }
        }
    }

    let _outer = OuterBudget(BUDGET.replace(Budget::WHOLE));
    write()
}

/// Takes `bytes` from the budget. Returns false if fewer bytes are left; the argument is then cut
/// here.
pub(super) fn take(bytes: usize) -> bool {
    let budget = BUDGET.get();
    let is_there = bytes <= budget.bytes && !budget.is_cut;
    BUDGET.set(Budget {
        bytes: budget.bytes.saturating_sub(bytes),
        is_cut: !is_there,
    });
    is_there
}

/// Takes the length of `text` from the budget, if all of it fits. Returns false otherwise.
pub(super) fn take_text(text: &str) -> bool {
    let is_whole = text.len() <= BUDGET.get().bytes;
    is_whole && take(text.len())
}

/// The limit of one text, which comes in several pieces.
#[derive(Debug)]
pub(super) struct TextLimit {
    left: usize,
    /// The length of the whole text, in bytes.
    len: usize,
    is_cut: bool,
}

impl TextLimit {
    pub(super) fn new() -> Self {
        Self {
            left: BUDGET.get().bytes,
            len: 0,
            is_cut: false,
        }
    }

    /// Returns the beginning of the next piece that still fits.
    pub(super) fn admit<'a>(&mut self, piece: &'a str) -> &'a str {
        self.len += piece.len();
        let mut end = piece.len().min(self.left);
        while !piece.is_char_boundary(end) {
            end -= 1;
        }
        self.left -= end;
        if end < piece.len() {
            // The pieces after a cut are left out as a whole.
            self.left = 0;
            self.is_cut = true;
        }
        piece.get(..end).unwrap_or_default()
    }

    /// Ends the text. Returns the mark to write behind it, if it was cut.
    pub(super) fn end(self) -> Option<CutMark> {
        BUDGET.set(Budget {
            bytes: self.left,
            is_cut: BUDGET.get().is_cut || self.is_cut,
        });
        self.is_cut.then_some(CutMark {
            count: self.len,
            of: "bytes",
        })
    }
}

/// A mark that states that an argument was cut, and its full length.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutMark {
    pub(super) count: usize,
    pub(super) of: &'static str,
}

impl fmt::Display for CutMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "… ({} {})", self.count, self.of)
    }
}
