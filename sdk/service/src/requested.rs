//! The data sources that a session asks for, and whether a producer offers them.

use std::sync::Arc;

use protozero::OwnedMessage as _;

use super::control::Control;
use super::service::Service;
use tracezero_core::ids::SessionId;

/// The data sources that the configuration of a session asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedDataSources {
    /// True if data sources that are not listed are recorded, too.
    pub all: bool,
    /// The listed data sources in the order of the configuration.
    pub listed: Vec<RequestedDataSource>,
    /// Names of the data sources that producers offer, in alphabetical order.
    pub offered: Vec<String>,
}

/// An entry for a data source in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedDataSource {
    pub name: String,
    /// True if the session has an instance of the data source, or a producer that the entry admits
    /// offers it.
    pub is_offered: bool,
    /// The encoded `DataSourceConfig` that the data source got.
    pub config: Arc<[u8]>,
}

impl Service {
    /// Returns the data sources that a session asks for; none if there is no such session.
    pub fn requested_data_sources(&self, session: SessionId) -> RequestedDataSources {
        self.look(|control| control.requested_data_sources(session))
            .unwrap_or_default()
    }
}

impl Control {
    fn requested_data_sources(&self, session: SessionId) -> Option<RequestedDataSources> {
        let session = self.sessions.get(&session)?;
        let config = &session.recording.config;
        let offers = || {
            self.producers.values().flat_map(|producer| {
                let offered = producer.data_sources.iter();
                offered.map(|data_source| (producer.name.as_str(), &data_source.descriptor.name))
            })
        };
        let mut offered: Vec<String> = offers().map(|(_, name)| name.clone()).collect();
        offered.sort_unstable();
        offered.dedup();
        let listed = config
            .data_sources
            .iter()
            .enumerate()
            .map(|(index, entry)| {
                let has_instance = session.instances.iter().any(|it| it.entry == index);
                let recorded = session.recording.data_sources_named(&entry.name);
                let is_admitted = |producer: &str| {
                    let mut recorded = recorded.iter().filter(|recorded| recorded.index == index);
                    recorded.any(|recorded| recorded.admits_producer(producer))
                };
                RequestedDataSource {
                    name: entry.name.clone(),
                    is_offered: has_instance
                        || offers()
                            .any(|(producer, name)| *name == entry.name && is_admitted(producer)),
                    config: match session.changed_configs.get(&entry.name) {
                        Some(changed) => Arc::clone(changed),
                        None => entry.source_specific.encode_to_vec().into(),
                    },
                }
            });
        Some(RequestedDataSources {
            all: config.records_all,
            listed: listed.collect(),
            offered,
        })
    }
}
