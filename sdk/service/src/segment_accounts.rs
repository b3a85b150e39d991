//! The accounts of segments.
//!
//! The account of a segment is the difference of two totals: those when its sequence came into the
//! segment, and those when the sequence left it, or at the segment's end. So the accounts of all
//! segments add up to that of the session.

use std::collections::HashMap;
use std::mem;

use super::sequence_account::SequenceAccount;
use super::trace_stats::TraceStats;

/// The identity of an account: the id of the sequence, and the position of the buffer.
type AccountKey = (Option<u32>, usize);

/// What the accounts of segments need to know.
#[derive(Debug, Default)]
pub(super) struct SegmentAccounts {
    /// The size at which a segment should end.
    pub(super) segment_bytes: u64,
    /// The totals when the present segment began; while an older one has not ended, those when that
    /// one began.
    begun: TraceStats,
    /// The accounts at that time.
    begun_accounts: HashMap<AccountKey, SequenceAccount>,
    /// The accounts of sequences when they left the older segment.
    left: HashMap<AccountKey, SequenceAccount>,
    /// True while the accounts of an older segment are open.
    pub(super) has_older: bool,
    /// The statistics of the older segment, from the end of a session until they are written.
    pub(super) older_stats: Option<TraceStats>,
    /// The number of bytes in segments that have ended.
    pub(super) ended_bytes: u64,
}

impl SegmentAccounts {
    pub(super) fn new(segment_bytes: u64) -> Self {
        Self {
            segment_bytes,
            ..Self::default()
        }
    }

    /// Notes totals at the time when these sequences have left the older segment. Each already has
    /// this number of packets in the newer one.
    pub(super) fn note_left(&mut self, totals: &TraceStats, moved: &[(u32, u64)]) {
        let moved: HashMap<u32, u64> = moved.iter().copied().collect();
        for account in &totals.sequences {
            if let Some(&packets) = account.sequence_id.and_then(|id| moved.get(&id)) {
                self.left
                    .entry(key_of(account))
                    .or_insert_with(|| account.before(packets));
            }
        }
    }

    /// Returns the statistics of the newest segment so far.
    pub(super) fn newest(&self, totals: &TraceStats) -> TraceStats {
        self.since_begin(totals, totals.sequences.clone())
    }

    /// Ends the older segment, and returns its statistics. `is_in_older` returns true for a sequence
    /// that has not left the segment.
    pub(super) fn end_older(
        &mut self,
        totals: &TraceStats,
        is_in_older: impl Fn(Option<u32>) -> bool,
    ) -> TraceStats {
        self.has_older = false;
        let mut left = mem::take(&mut self.left);
        for account in &totals.sequences {
            if is_in_older(account.sequence_id) {
                left.entry(key_of(account))
                    .or_insert_with(|| account.before(0));
            }
        }
        let stats = self.since_begin(totals, left.values().cloned().collect());
        self.begun = totals.clone();
        self.begun.sequences = Vec::new();
        self.begun_accounts = left;
        stats
    }

    fn since_begin(&self, totals: &TraceStats, accounts: Vec<SequenceAccount>) -> TraceStats {
        let of_segment =
            accounts
                .into_iter()
                .map(|account| match self.begun_accounts.get(&key_of(&account)) {
                    Some(begun) => account.since(begun),
                    None => account,
                });
        let mut sequences: Vec<_> = of_segment.filter(|account| account.begun > 0).collect();
        sequences.sort_by_key(|account| (account.buffer, account.sequence_id));
        TraceStats {
            sequences,
            ..totals.since(&self.begun)
        }
    }
}

fn key_of(account: &SequenceAccount) -> AccountKey {
    (account.sequence_id, account.buffer)
}
