//! How large an argument may be, and what becomes of a larger one.
//!
//! Each argument has a budget, which its texts, names and elements use up. What is beyond is left out,
//! and a mark says so in its place. Arguments that are written in the short way ask nobody.

use std::cell::Cell;
use std::fmt;

use crate::altered::note_cut_arg;

/// Bytes of texts and names in one argument; each element of a list and each entry of a dictionary
/// counts as 8 more. A text that is longer is cut, and ends with `…` and the
/// number of bytes that it had; a list or a dictionary ends with an element that tells how much there
/// was. The report says how many arguments were cut: `Warning::CutArguments`.
pub const ARG_MAX_BYTES: usize = 64 * 1024;

/// What an element of a list or an entry of a dictionary uses, beside its texts.
pub(super) const ELEMENT_BYTES: usize = 8;

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(Budget::WHOLE) };
}

/// What is left for the argument that the thread is writing.
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

/// Calls `write`, which writes one argument.
pub(super) fn with_budget<R>(write: impl FnOnce() -> R) -> R {
    /// Also if formatting panics: the argument around, whose formatting made this one, goes on.
    struct Around(Budget);

    impl Drop for Around {
        fn drop(&mut self) {
            if BUDGET.replace(self.0).is_cut {
                note_cut_arg();
            }
        }
    }

    let _around = Around(BUDGET.replace(Budget::WHOLE));
    write()
}

/// Uses up `bytes` of the budget. Without so many the argument is cut here.
pub(super) fn take(bytes: usize) -> bool {
    let budget = BUDGET.get();
    let is_there = bytes <= budget.bytes && !budget.is_cut;
    BUDGET.set(Budget {
        bytes: budget.bytes.saturating_sub(bytes),
        is_cut: !is_there,
    });
    is_there
}

/// Uses up the budget for a text if there is enough for all of it.
pub(super) fn take_text(text: &str) -> bool {
    let is_whole = text.len() <= BUDGET.get().bytes;
    is_whole && take(text.len())
}

/// A text on its way into an argument.
#[derive(Debug)]
pub(super) struct TextLimit {
    left: usize,
    /// Of the whole text.
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

    /// How much of the next piece of the text there is room for.
    pub(super) fn admit<'a>(&mut self, piece: &'a str) -> &'a str {
        self.len += piece.len();
        let mut end = piece.len().min(self.left);
        while !piece.is_char_boundary(end) {
            end -= 1;
        }
        self.left -= end;
        if end < piece.len() {
            // What follows would not belong here.
            self.left = 0;
            self.is_cut = true;
        }
        piece.get(..end).unwrap_or_default()
    }

    /// The end of the text. Returns what is written behind it if it was cut.
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

/// Says that an argument was cut, and how much there was of it.
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
