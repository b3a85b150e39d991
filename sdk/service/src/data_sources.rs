//! Data sources, which producers register and sessions record.

use super::control::Control;
use super::instance::RegisteredDataSource;
use super::limit_log::ProducerLimit;
use tracezero_config::LockdownMode;
use tracezero_core::coordination::{DataSourceDescriptor, DataSourceError, NAME_MAX_BYTES};
use tracezero_core::ids::ProducerId;

/// The maximum number of data sources that a producer may offer at once.
const DATA_SOURCES_PER_PRODUCER_MAX: usize = 1024;

/// The maximum size of the descriptors of a producer's data sources, in bytes.
const DESCRIPTORS_PER_PRODUCER_MAX_BYTES: usize = 4 << 20;

/// The maximum size of the descriptors of all producers of a user, in bytes.
const DESCRIPTORS_PER_UID_MAX_BYTES: usize = 64 << 20;

const TOO_MANY: DataSourceError = DataSourceError::TooMany {
    count_max: DATA_SOURCES_PER_PRODUCER_MAX,
    bytes_max: DESCRIPTORS_PER_PRODUCER_MAX_BYTES,
};

/// Returns the size of a descriptor in memory, in bytes.
fn size_bytes(descriptor: &DataSourceDescriptor) -> usize {
    let categories = descriptor.categories.iter().map(|category| {
        let tags = category.tags.iter().map(|tag| size_of_val(tag) + tag.len());
        size_of_val(category)
            + category.name.len()
            + category.description.len()
            + tags.sum::<usize>()
    });
    size_of_val(descriptor)
        + descriptor.name.len()
        + descriptor.extension_descriptors.len()
        + descriptor.protovm_program.len()
        + descriptor.encoded.len()
        + categories.sum::<usize>()
}

impl Control {
    /// Registers a data source. Present and later sessions can record it.
    pub(super) fn register_data_source(
        &mut self,
        producer_id: ProducerId,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), DataSourceError> {
        self.check_data_source_name(producer_id, &descriptor)?;
        let Some(producer) = self.producers.get_mut(&producer_id) else {
            return Ok(());
        };
        if producer.data_sources.len() >= DATA_SOURCES_PER_PRODUCER_MAX {
            self.limit_reached(producer_id, ProducerLimit::DataSources, 1);
            return Err(TOO_MANY);
        }
        let mut registered = producer.data_sources.iter();
        if descriptor.id != 0 && registered.any(|other| other.descriptor.id == descriptor.id) {
            return Err(DataSourceError::IdInUse { id: descriptor.id });
        }
        self.make_room(producer_id, 0, &descriptor)?;
        self.last_registration.0 += 1;
        let data_source = RegisteredDataSource {
            number: self.last_registration,
            descriptor,
        };
        if let Some(producer) = self.producers.get_mut(&producer_id) {
            producer.data_sources.push(data_source.clone());
        }
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
        self.check_data_source_name(producer_id, &descriptor)?;
        let producer = self.producers.get(&producer_id);
        let place = producer.and_then(|producer| {
            let mut data_sources = producer.data_sources.iter();
            data_sources.position(|other| {
                descriptor.id != 0
                    && other.descriptor.id == descriptor.id
                    && other.descriptor.name == descriptor.name
            })
        });
        let (Some(producer), Some(place)) = (producer, place) else {
            return Err(DataSourceError::Unknown {
                id: descriptor.id,
                name: descriptor.name,
            });
        };
        let former_bytes = size_bytes(&producer.data_sources[place].descriptor);
        self.make_room(producer_id, former_bytes, &descriptor)?;
        if let Some(producer) = self.producers.get_mut(&producer_id) {
            producer.data_sources[place].descriptor = descriptor;
        }
        Ok(())
    }

    /// Counts the size of a descriptor that replaces one of `former_bytes`, if there is room for it.
    fn make_room(
        &mut self,
        producer_id: ProducerId,
        former_bytes: usize,
        descriptor: &DataSourceDescriptor,
    ) -> Result<(), DataSourceError> {
        let more_bytes = size_bytes(descriptor);
        let Some(producer) = self.producers.get(&producer_id) else {
            return Ok(());
        };
        let uid = producer.link.client().uid;
        let of_user = self
            .producers
            .values()
            .filter(|it| it.link.client().uid == uid);
        let user_bytes: usize = of_user.map(|it| it.descriptors_bytes).sum();
        let producer_bytes = producer.descriptors_bytes - former_bytes + more_bytes;
        let refusal = if producer_bytes > DESCRIPTORS_PER_PRODUCER_MAX_BYTES {
            TOO_MANY
        } else if user_bytes - former_bytes + more_bytes > DESCRIPTORS_PER_UID_MAX_BYTES {
            DataSourceError::TooLargeForUser {
                bytes_max: DESCRIPTORS_PER_UID_MAX_BYTES,
            }
        } else {
            if let Some(producer) = self.producers.get_mut(&producer_id) {
                producer.descriptors_bytes = producer_bytes;
            }
            return Ok(());
        };
        self.limit_reached(producer_id, ProducerLimit::DataSources, 1);
        Err(refusal)
    }

    /// Refuses the name of a data source that is empty or too long. The service keeps names, and
    /// hands them to owners, logs and traces.
    fn check_data_source_name(
        &mut self,
        producer: ProducerId,
        descriptor: &DataSourceDescriptor,
    ) -> Result<(), DataSourceError> {
        let bytes = descriptor.name.len();
        if (1..=NAME_MAX_BYTES).contains(&bytes) {
            return Ok(());
        }
        self.limit_reached(producer, ProducerLimit::DataSources, 1);
        Err(DataSourceError::WrongName {
            bytes,
            bytes_max: NAME_MAX_BYTES,
        })
    }

    pub(super) fn unregister_data_source(&mut self, producer_id: ProducerId, name: &str) {
        let Some(producer) = self.producers.get_mut(&producer_id) else {
            return;
        };
        let mut registered = producer.data_sources.iter();
        let Some(index) = registered.position(|it| it.descriptor.name == name) else {
            return;
        };
        let removed = producer.data_sources.remove(index);
        producer.descriptors_bytes -= size_bytes(&removed.descriptor);
        self.for_each_session(|session, context| {
            session.remove_instances(context, |instance| instance.registration == removed.number);
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
