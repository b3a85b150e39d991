//! The daemon, as the producer sees it: all calls go into the outbox and return at once.

use std::sync::Arc;
use std::time::Duration;

use tracezero_core::commit::{CommitRequest, LossCount, ServiceEndpoint};
use tracezero_core::coordination::{DataSourceDescriptor, DataSourceError, ServiceControl};
use tracezero_core::ids::{BufferId, FlushId, InstanceId, WriterId};
use tracezero_core::reentry;

use crate::outbox::{Item, Outbox};
use crate::syncs::Syncs;
use crate::totals::Totals;

/// The service behind a connection.
#[derive(Debug)]
pub(crate) struct RemoteService {
    pub(crate) outbox: Arc<Outbox>,
    /// `None` for a daemon that does not take the counts of writers.
    pub(crate) totals: Option<Totals>,
    /// `None` if no trace point waits for the daemon.
    pub(crate) syncs: Option<Syncs>,
}

impl RemoteService {
    /// Tells the daemon what became of the packets of writers. The daemon compares these counts
    /// with the packets that it has.
    pub(crate) fn push_totals(&self) {
        let changed = self.totals.as_ref().map(Totals::take_changed);
        if let Some(changed) = changed.filter(|changed| !changed.is_empty()) {
            self.outbox.push(Item::WriterTotals(changed));
        }
    }
}

impl RemoteService {
    /// Sends a request of the kind Sync, whose reply follows the replies to everything sent before.
    /// Returns the number of the request.
    pub(crate) fn sync(&self, syncs: &Syncs) -> u64 {
        let number = syncs.ask();
        self.outbox.push(Item::Sync(number));
        number
    }
}

impl ServiceEndpoint for RemoteService {
    fn commit(&self, request: &CommitRequest) {
        self.outbox.commit(request);
    }

    /// Ignores `losses`: a daemon does not tell which packets it has lost.
    fn register_writer(
        &self,
        writer_id: WriterId,
        target_buffer: BufferId,
        losses: &Arc<LossCount>,
    ) {
        let _ = losses;
        self.outbox
            .push(Item::RegisterWriter(writer_id, target_buffer));
    }

    fn unregister_writer(&self, writer_id: WriterId) {
        self.outbox.push(Item::UnregisterWriter(writer_id));
    }
}

impl ServiceControl for RemoteService {
    fn register_data_source(
        &self,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), DataSourceError> {
        self.offer_data_source(descriptor)
    }

    fn offer_data_source(&self, descriptor: DataSourceDescriptor) -> Result<(), DataSourceError> {
        self.outbox.push(Item::RegisterDataSource(descriptor));
        Ok(())
    }

    /// Waits until the calls of the daemon are made, if trace points wait for the daemon. Does not
    /// wait in a callback, because its thread may be the one that makes the calls.
    fn make_calls(&self, limit: Duration) {
        if let Some(syncs) = &self.syncs
            && !reentry::is_in_callback()
        {
            let number = self.sync(syncs);
            syncs.wait(number, limit);
        }
    }

    fn update_data_source(&self, descriptor: DataSourceDescriptor) -> Result<(), DataSourceError> {
        self.outbox.push(Item::UpdateDataSource(descriptor));
        Ok(())
    }

    fn unregister_data_source(&self, name: &str) {
        self.outbox
            .push(Item::UnregisterDataSource(name.to_owned()));
    }

    fn notify_started(&self, instance: InstanceId) {
        self.outbox.push(Item::Started(instance));
    }

    fn notify_stopped(&self, instance: InstanceId) {
        self.push_totals();
        self.outbox.push(Item::Stopped(instance));
    }

    fn acknowledge_flush(&self, flush: FlushId) {
        self.push_totals();
        self.outbox.push(Item::FlushDone(flush));
    }

    fn activate_triggers(&self, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.outbox.push(Item::ActivateTriggers(names));
    }
}
