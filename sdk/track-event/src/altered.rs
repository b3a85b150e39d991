//! Counts of values that this process wrote to traces in a shortened or rounded form, or not at
//! all.

use std::sync::atomic::{AtomicU64, Ordering};

use tracezero_core::counter_value::rounded_count;

static CUT_ARGS: AtomicU64 = AtomicU64::new(0);
static TOO_DEEP_SPANS: AtomicU64 = AtomicU64::new(0);

/// The number of values that were altered so far, of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlteredCounts {
    /// Arguments that were cut or left out because they were too long, alone or together with the
    /// other arguments of their span.
    pub cut_args: u64,
    /// Counter values beyond `i64` that were rounded to the nearest float.
    pub rounded_counters: u64,
    /// Spans that were left out because too many others were open around them.
    pub too_deep_spans: u64,
}

impl AlteredCounts {
    /// Returns the counts since the process started.
    #[must_use]
    pub fn now() -> Self {
        // Relaxed: these are counts only, and order no other memory.
        Self {
            cut_args: CUT_ARGS.load(Ordering::Relaxed),
            rounded_counters: rounded_count(),
            too_deep_spans: TOO_DEEP_SPANS.load(Ordering::Relaxed),
        }
    }

    /// Returns what was altered after `earlier` was taken.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            cut_args: self.cut_args - earlier.cut_args,
            rounded_counters: self.rounded_counters - earlier.rounded_counters,
            too_deep_spans: self.too_deep_spans - earlier.too_deep_spans,
        }
    }
}

/// Counts an argument that was cut or left out.
#[cold]
pub fn note_cut_arg() {
    // Relaxed: as in `now`.
    CUT_ARGS.fetch_add(1, Ordering::Relaxed);
}

#[cold]
pub(super) fn note_too_deep_span() {
    // Relaxed: as in `now`.
    TOO_DEEP_SPANS.fetch_add(1, Ordering::Relaxed);
}
