//! Data sources, which producers register and sessions record.

use super::control::Control;
use super::instance::RegisteredDataSource;
use tracezero_config::LockdownMode;
use tracezero_core::coordination::{DataSourceDescriptor, DataSourceError};
use tracezero_core::ids::ProducerId;

impl Control {
    /// Registers a data source. Present and later sessions can record it.
    pub(super) fn register_data_source(
        &mut self,
        producer_id: ProducerId,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), DataSourceError> {
        let Some(producer) = self.producers.get_mut(&producer_id) else {
            return Ok(());
        };
        let mut registered = producer.data_sources.iter();
        if descriptor.id != 0 && registered.any(|other| other.descriptor.id == descriptor.id) {
            return Err(DataSourceError::IdInUse { id: descriptor.id });
        }
        self.last_registration.0 += 1;
        let data_source = RegisteredDataSource {
            number: self.last_registration,
            descriptor,
        };
        producer.data_sources.push(data_source.clone());
        self.for_each_session(|session, context| {
            session.set_up_and_start(context, producer_id, &data_source);
        });
        Ok(())
    }

    /// Replaces the descriptor of a registered data source. Existing instances do not change.
    pub(super) fn update_data_source(
        &mut self,
        producer_id: ProducerId,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), DataSourceError> {
        let producer = self.producers.get_mut(&producer_id);
        let known = producer.and_then(|producer| {
            producer.data_sources.iter_mut().find(|other| {
                descriptor.id != 0
                    && other.descriptor.id == descriptor.id
                    && other.descriptor.name == descriptor.name
            })
        });
        match known {
            Some(known) => {
                known.descriptor = descriptor;
                Ok(())
            }
            None => Err(DataSourceError::Unknown {
                id: descriptor.id,
                name: descriptor.name,
            }),
        }
    }

    pub(super) fn unregister_data_source(&mut self, producer_id: ProducerId, name: &str) {
        let Some(producer) = self.producers.get_mut(&producer_id) else {
            return;
        };
        producer
            .data_sources
            .retain(|data_source| data_source.descriptor.name != name);
        self.for_each_session(|session, context| {
            session.remove_instances(context, |instance| {
                instance.producer == producer_id && instance.descriptor.name == name
            });
        });
    }

    /// Applies the `lockdown_mode` of a session: whether producers of other users are kept out.
    pub(super) fn set_lockdown(&mut self, mode: LockdownMode) {
        match mode {
            LockdownMode::Unchanged => {}
            LockdownMode::Clear => self.only_uid = None,
            LockdownMode::Set => self.only_uid = Some(self.environment.uid()),
        }
    }
}
