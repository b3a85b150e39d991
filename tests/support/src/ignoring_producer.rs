//! A producer that records nothing.

use tracezero_core::coordination::{DataSourceSetup, FlushFlags, Producer};
use tracezero_core::ids::{FlushId, InstanceId};

/// A producer that ignores all calls.
#[derive(Debug)]
pub struct IgnoringProducer;

impl Producer for IgnoringProducer {
    fn set_up_data_source(&self, _: InstanceId, _: &DataSourceSetup) -> bool {
        true
    }
    fn start_data_source(&self, _: InstanceId) {}
    fn stop_data_source(&self, _: InstanceId) {}
    fn flush(&self, _: FlushId, _: &[InstanceId], _: FlushFlags) {}
    fn clear_incremental_state(&self, _: &[InstanceId]) {}
}
