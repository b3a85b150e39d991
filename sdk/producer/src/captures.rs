//! Data sources in captures of tests. Each capture is a realm of its own.

use std::sync::Arc;

use crate::active_slots::CAPTURE_SLOT;
use crate::data_source_state::DataSourceState;
use crate::data_sources::START_WAIT_LIMIT;
use crate::registry::{REGISTRY, offer};
use crate::thread_writers;
use tracezero_core::forked_child;

/// Adds a data source to the thread's capture. Called when a trace point was reached and `slots`
/// record the data source.
#[inline(always)]
pub(crate) fn reached(data_source: &'static DataSourceState, slots: u32) {
    if slots & 1 << CAPTURE_SLOT != 0 {
        registered(data_source);
    }
}

/// Adds a data source to the capture that this thread writes to. Called when one of its trace
/// points was reached, or when it was registered. So a capture has the data sources that its test
/// uses, and no others that happen to be known because of other tests.
#[cold]
pub(crate) fn registered(data_source: &'static DataSourceState) {
    let Some(realm) = thread_writers::capture_without_instance(data_source) else {
        return;
    };
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let service = {
        let mut registry = REGISTRY.lock();
        let Some(connected) = registry.realms.get_mut(&realm) else {
            return;
        };
        let mut reached = connected.reached.iter();
        if !reached.any(|reached| std::ptr::eq(*reached, data_source)) {
            connected.reached.push(data_source);
            offer(&*connected.service, data_source);
        }
        Arc::clone(&connected.service)
    };
    // Make the calls even if another thread has offered the data source: that thread may not have
    // made them yet.
    service.make_calls(START_WAIT_LIMIT);
}
