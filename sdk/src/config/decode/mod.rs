//! Configurations that arrive as protobuf.
//!
//! Each message is read field by field, so a field that nobody reads is noticed. Singular messages
//! that occur several times are merged, as protobuf says.

mod data_source; // DataSource and DataSourceConfig
mod field; // one field and its place
mod message; // messages of the session that fit nowhere else
mod triggers; // TriggerConfig
mod unsupported; // what is refused by name

pub(super) use data_source::check_source_specific;
#[cfg(feature = "text-config")]
pub(super) use unsupported::unsupported_name;

use field::read_message;
use triggers::TriggersRead;

use super::place::Place;
use super::{Compression, ConfigError, TraceConfig};
use tracezero_core::protos::TraceConfig as Schema;

/// What is put together when the whole message has been read.
#[derive(Default)]
struct Pending {
    triggers: Option<TriggersRead>,
    compression: CompressionRead,
}

/// Ways to compress that a message names; readers of the trace can do with any of them.
#[derive(Default)]
struct CompressionRead {
    deflate: bool,
    zstd_level: Option<i32>,
}

impl CompressionRead {
    /// The best way wins that this build knows; if it knows none of them, the best.
    fn choose(self) -> Compression {
        let zstd = self.zstd_level.map(|level| Compression::Zstd { level });
        let deflate = self.deflate.then_some(Compression::Deflate);
        let named = [zstd, deflate].into_iter().flatten();
        named
            .clone()
            .find(|way| way.remedy().is_none())
            .or_else(|| named.into_iter().next())
            .unwrap_or_default()
    }
}

impl TraceConfig {
    /// Reads a configuration that is encoded as the message `perfetto.protos.TraceConfig`.
    ///
    /// It is not checked yet: [`check`](Self::check) does, and so does a session that starts.
    ///
    /// Every field is understood or refused, with these exceptions, which change nothing here:
    ///
    /// - `experimental_mode` of a buffer: each is a `TRACE_BUFFER_V2`;
    /// - `trace_all_machines`: there is one machine;
    /// - `trace_duration_ms`, `tracing_session_id`, `enable_extra_guardrails`, `stop_timeout_ms`,
    ///   `session_initiator` and `prefer_suspend_clock_for_duration` of a data source: the service
    ///   puts the session's own values there;
    /// - `notify_traceur`, `allow_user_build_tracing` and `max_upload_per_day_bytes`: the service
    ///   of the reference implementation ignores them, too.
    ///
    /// `trace_attributes`, `bugreport_score` and `bugreport_filename` are only carried along. Fields
    /// of a data source from number 100 on are handed to it as they are.
    ///
    /// # Errors
    ///
    /// If the bytes are no such message, or a field is unknown or asks for something that this
    /// crate does not do.
    pub fn decode(bytes: &[u8]) -> Result<Self, ConfigError> {
        let mut config = Self::new();
        let mut pending = Pending::default();
        read_message("TraceConfig", bytes, &Place::ROOT, |field| {
            match field.number() {
                Schema::BUFFERS_FIELD_NUMBER
                | Schema::DATA_SOURCES_FIELD_NUMBER
                | Schema::BUILTIN_DATA_SOURCES_FIELD_NUMBER
                | Schema::PRODUCERS_FIELD_NUMBER
                | Schema::INCREMENTAL_STATE_CONFIG_FIELD_NUMBER
                | Schema::TRACE_ALL_MACHINES_FIELD_NUMBER => config.read_recorded(field),
                Schema::TRIGGER_CONFIG_FIELD_NUMBER => pending
                    .triggers
                    .get_or_insert_default()
                    .read(field.message("trigger_config")?),
                Schema::COMPRESSION_TYPE_FIELD_NUMBER | Schema::COMPRESSION_FIELD_NUMBER => {
                    pending.compression.read(field)
                }
                _ => config.read_setting(field),
            }
        })?;
        config.compression = pending.compression.choose();
        config.trigger_config = match pending.triggers {
            Some(triggers) => triggers.finish(&Place::ROOT.field("trigger_config"))?,
            None => None,
        };
        Ok(config)
    }
}
