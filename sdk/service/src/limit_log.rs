//! Tells the environment which producers have reached a limit, for the log of a daemon. A producer
//! cannot flood that log: each of its limits is told once a minute, with a count.

use std::fmt;

use tracezero_core::ids::ProducerId;

/// A limit that a producer can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProducerLimit {
    /// The number of its data sources, the size of their descriptors, or the size of a name:
    /// [`TraceStats::data_sources_refused`](crate::TraceStats::data_sources_refused).
    DataSources,
    /// The number of instances in a session, or the size of their schemas:
    /// [`TraceStats::instances_refused`](crate::TraceStats::instances_refused).
    Instances,
    /// The rate and the number of triggers, or the size of a name:
    /// [`TraceStats::triggers_ignored`](crate::TraceStats::triggers_ignored).
    Triggers,
    /// The number of ProtoVM programs or of their producers; also programs that are malformed:
    /// [`StateStats::error`](crate::StateStats::error).
    Programs,
}

impl ProducerLimit {
    pub(super) const ALL: [Self; 4] = [
        Self::DataSources,
        Self::Instances,
        Self::Triggers,
        Self::Programs,
    ];
}

/// A limit that a producer has reached. `Display` formats it as one line for a log, whatever the
/// name of the producer is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReached {
    /// The producer.
    pub producer: ProducerId,
    /// The name of the producer, which it has chosen; at most 256 bytes.
    pub producer_name: String,
    /// The user that it runs as; `None` if unknown.
    pub uid: Option<u32>,
    /// The limit.
    pub limit: ProducerLimit,
    /// The number of times that the limit was reached since this was last told.
    pub count: u64,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            producer,
            producer_name,
            count,
            ..
        } = self;
        write!(f, "producer {} {producer_name:?}", producer.value())?;
        if let Some(uid) = self.uid {
            write!(f, " of user {uid}")?;
        }
        let refused = match self.limit {
            ProducerLimit::DataSources => "data sources refused",
            ProducerLimit::Instances => "instances not set up",
            ProducerLimit::Triggers => "triggers ignored",
            ProducerLimit::Programs => {
                return write!(
                    f,
                    ": {count} ProtoVM programs refused: malformed, or too many"
                );
            }
        };
        write!(f, ": {count} {refused}, because a limit was reached")
    }
}

/// How often a producer has reached each limit.
#[derive(Debug, Default)]
pub(super) struct LimitCounts {
    counts: [LimitCount; ProducerLimit::ALL.len()],
}

#[derive(Debug, Default)]
struct LimitCount {
    /// When the limit was last told.
    told_ns: Option<u64>,
    /// The number of times since then.
    untold: u64,
}

impl LimitCounts {
    /// Notes that a limit was reached `count` times. Returns the count to tell now.
    pub(super) fn note(&mut self, now_ns: u64, limit: ProducerLimit, count: u64) -> Option<u64> {
        const TOLD_EVERY_NS: u64 = 60 * 1_000_000_000;
        let LimitCount { told_ns, untold } = &mut self.counts[limit as usize];
        *untold += count;
        if told_ns.is_some_and(|told_ns| now_ns < told_ns + TOLD_EVERY_NS) {
            return None;
        }
        *told_ns = Some(now_ns);
        Some(std::mem::take(untold))
    }

    /// Returns how often a limit was reached since that was last told.
    pub(super) fn untold(&self, limit: ProducerLimit) -> u64 {
        self.counts[limit as usize].untold
    }
}
