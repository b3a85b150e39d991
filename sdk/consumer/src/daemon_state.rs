//! What the daemon has: producers, data sources and sessions.

use protozero::DecodeError;

use tracezero_ipc::protos::{DataSourceDescriptorDecoder, TracingServiceStateDecoder};

/// What a daemon has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonState {
    /// The version of the daemon, for humans.
    pub version: String,
    /// The connected producers.
    pub producers: Vec<DaemonProducer>,
    /// The data sources that they offer.
    pub data_sources: Vec<OfferedDataSource>,
    /// The sessions that this consumer may know of: those of its user, and for root all.
    pub sessions: Vec<DaemonSessionState>,
    /// The number of all sessions.
    pub num_sessions: u32,
    /// The number of all sessions that are started.
    pub num_sessions_started: u32,
}

/// A producer that is connected to a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonProducer {
    /// The number of the producer.
    pub id: i32,
    /// The name.
    pub name: String,
    /// The id of its process. Older daemons do not tell it: then it is 0.
    pub pid: i32,
    /// The user of its process.
    pub uid: i32,
    /// The name and version of its library.
    pub sdk_version: String,
}

/// A data source that a producer offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedDataSource {
    /// The name, such as `track_event`.
    pub name: String,
    /// The number of its producer.
    pub producer_id: i32,
    /// The names of the categories of its events, as far as they are known.
    pub categories: Vec<String>,
}

/// A session of a daemon, as the daemon tells all consumers of the same user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonSessionState {
    /// The number of the session.
    pub id: u64,
    /// The user of its consumer.
    pub consumer_uid: i32,
    /// The name of its state, for humans, such as `STARTED`.
    pub state: String,
    /// True if it is started. Older daemons do not tell it.
    pub is_started: bool,
    /// The unique name of its configuration; may be empty.
    pub unique_session_name: String,
    /// The sizes of its buffers, in KiB.
    pub buffer_sizes_kib: Vec<u32>,
    /// The duration of its configuration, in milliseconds; 0 for none.
    pub duration_ms: u32,
    /// The number of its instances of data sources.
    pub num_data_sources: u32,
    /// When it started, in nanoseconds of the clock `REALTIME`; 0 if it has not.
    pub start_realtime_ns: i64,
}

impl DaemonState {
    /// Decodes the joined replies.
    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, DecodeError> {
        let state = TracingServiceStateDecoder::new(encoded);
        let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let mut decoded = Self {
            version: owned(state.tracing_service_version()?),
            num_sessions: count(state.num_sessions()?),
            num_sessions_started: count(state.num_sessions_started()?),
            ..Self::default()
        };
        for producer in state.producers() {
            let producer = producer?;
            decoded.producers.push(DaemonProducer {
                id: producer.id()?.unwrap_or_default(),
                name: owned(producer.name()?),
                pid: producer.pid()?.unwrap_or_default(),
                uid: producer.uid()?.unwrap_or_default(),
                sdk_version: owned(producer.sdk_version()?),
            });
        }
        for data_source in state.data_sources() {
            let data_source = data_source?;
            let descriptor = data_source.ds_descriptor()?.unwrap_or_default();
            let descriptor = DataSourceDescriptorDecoder::new(descriptor);
            let mut categories = Vec::new();
            if let Some(events) = descriptor.track_event_descriptor()? {
                for category in events.available_categories() {
                    categories.push(owned(category?.name()?));
                }
            }
            decoded.data_sources.push(OfferedDataSource {
                name: owned(descriptor.name()?),
                categories,
                producer_id: data_source.producer_id()?.unwrap_or_default(),
            });
        }
        for session in state.tracing_sessions() {
            let session = session?;
            decoded.sessions.push(DaemonSessionState {
                id: session.id()?.unwrap_or_default(),
                consumer_uid: session.consumer_uid()?.unwrap_or_default(),
                state: owned(session.state()?),
                is_started: session.is_started()?.unwrap_or_default(),
                unique_session_name: owned(session.unique_session_name()?),
                buffer_sizes_kib: session.buffer_size_kb().collect::<Result<_, _>>()?,
                duration_ms: session.duration_ms()?.unwrap_or_default(),
                num_data_sources: session.num_data_sources()?.unwrap_or_default(),
                start_realtime_ns: session.start_realtime_ns()?.unwrap_or_default(),
            });
        }
        Ok(decoded)
    }
}

fn count(count: Option<i32>) -> u32 {
    u32::try_from(count.unwrap_or_default()).unwrap_or_default()
}
