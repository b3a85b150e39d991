//! What happens in a session.

use tracezero_ipc::consumer_port::events::ObservedEvent;

/// Something that has happened in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// All data sources of the session have started.
    AllStarted,
    /// An instance of a data source has started.
    DataSourceStarted {
        /// The name of its producer.
        producer_name: String,
        /// The name of the data source.
        data_source_name: String,
    },
    /// An instance of a data source has stopped, or has not started yet.
    DataSourceStopped {
        /// The name of its producer.
        producer_name: String,
        /// The name of the data source.
        data_source_name: String,
    },
    /// A trigger asks the consumer to clone the session.
    CloneTriggered {
        /// The number of the session.
        session_id: u64,
        /// The name of the trigger.
        trigger_name: String,
    },
}

impl SessionEvent {
    pub(crate) fn new(event: &ObservedEvent<'_>) -> Self {
        match event {
            ObservedEvent::AllStarted => Self::AllStarted,
            ObservedEvent::Instance(change) => {
                let producer_name = change.producer_name.to_owned();
                let data_source_name = change.data_source_name.to_owned();
                match change.is_started {
                    true => Self::DataSourceStarted {
                        producer_name,
                        data_source_name,
                    },
                    false => Self::DataSourceStopped {
                        producer_name,
                        data_source_name,
                    },
                }
            }
            ObservedEvent::CloneTriggered {
                session_id,
                trigger_name,
                ..
            } => Self::CloneTriggered {
                session_id: *session_id,
                trigger_name: (*trigger_name).to_owned(),
            },
        }
    }
}
