//! The track events data source in one session.

use parking_lot::Mutex;

use crate::category_filter::CategoryFilter;
use crate::event_config::EventConfig;
use crate::options::EventOptions;
use crate::sequence::EventSequence;
use tracezero_producer::{Instance, LocalStart, OwnInstance, Setup};

/// One thread's trace writer and state for the events of one session.
pub(crate) type EventThread = Instance<EventSequence>;

/// A session's choice of track events, and how to encode them.
#[derive(Debug)]
pub struct EventInstance {
    /// May change while the session records. This lock may be taken while the registry of data
    /// sources is locked. So a thread that holds this lock must not lock the registry.
    pub(super) filter: Mutex<CategoryFilter>,
    options: EventOptions,
}

impl OwnInstance for EventInstance {
    type Local = EventSequence;

    fn new(setup: &Setup<'_>) -> Self {
        let EventConfig { filter, options } = EventConfig::decode(setup.config());
        Self {
            filter: Mutex::new(filter),
            options,
        }
    }

    fn change(&self, config: &[u8]) {
        // The options stay the same: events that are written already depend on them.
        *self.filter.lock() = EventConfig::decode(config).filter;
    }

    fn local(&self, start: LocalStart) -> EventSequence {
        EventSequence::new(start, self.options)
    }
}
