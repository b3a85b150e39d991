//! Track events in one session, as an instance of their data source.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::category_filter::CategoryFilter;
use crate::event_config::EventConfig;
use crate::options::EventOptions;
use crate::sequence::EventSequence;
use tracezero_core::commit::RingProgress;
use tracezero_producer::Setup;
use tracezero_producer::{Instance, OwnInstance};

/// What a thread writes events of one session with.
pub(crate) type EventThread = Instance<EventSequence>;

/// Which track events a session records, and how they are written.
#[derive(Debug)]
pub struct EventInstance {
    /// Changes while the session goes on. Locked inside of the registry of data sources.
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
        // What is written already was written with the same options.
        *self.filter.lock() = EventConfig::decode(config).filter;
    }

    fn local(&self, progress: Arc<RingProgress>) -> EventSequence {
        EventSequence::new(progress, self.options)
    }
}
