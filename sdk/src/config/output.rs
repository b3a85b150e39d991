//! The configuration of how the trace is flushed and written, and of the metadata in it.

use std::time::Duration;

use tracezero_core::attributes::TraceAttributeValue;
use tracezero_core::protos::owned::trace_attributes::Attribute;
use tracezero_core::protos::owned::trace_config::CompressionConfig;
use tracezero_core::protos::owned::trace_config::compression_config::{Deflate, Zstd};
use tracezero_core::protos::trace_config as schema;

use super::{Compression, TraceConfig, WriteFlushMode, whole_ms};

impl TraceConfig {
    /// Streams the trace into a file while the session runs. The trace of this session can be read
    /// only from the file.
    #[must_use]
    pub fn write_into_file(mut self) -> Self {
        self.message.write_into_file = Some(true);
        self
    }

    /// Sets the file to stream into, which must not exist yet. An empty path counts as no path.
    /// This setting is used together with [`write_into_file`](Self::write_into_file).
    #[must_use]
    pub fn output_path(mut self, path: impl Into<String>) -> Self {
        self.message.output_path = Some(path.into());
        self
    }

    /// Sets how often the file is written, rounded up to milliseconds. Zero stands for the default
    /// of 200 ms; a value below 100 ms counts as 100 ms. A process that is killed loses what it
    /// recorded since the last write.
    #[must_use]
    pub fn file_write_period(mut self, period: Duration) -> Self {
        self.message.file_write_period_ms = Some(whole_ms(period));
        self
    }

    /// Ends the session before its file would exceed this size. 0 stands for no limit.
    #[must_use]
    pub fn max_file_size_bytes(mut self, size_bytes: u64) -> Self {
        self.message.max_file_size_bytes = Some(size_bytes);
        self
    }

    /// Sets how often data sources are asked to flush, rounded up to milliseconds. Zero means
    /// never.
    #[must_use]
    pub fn flush_period(mut self, period: Duration) -> Self {
        self.message.flush_period_ms = Some(whole_ms(period));
        self
    }

    /// Sets how long data sources may take to flush, rounded up to milliseconds. Zero stands for
    /// the default of 5 s.
    #[must_use]
    pub fn flush_timeout(mut self, timeout: Duration) -> Self {
        self.message.flush_timeout_ms = Some(whole_ms(timeout));
        self
    }

    /// Sets whether the service flushes data sources before it writes to the file.
    #[must_use]
    pub fn write_flush_mode(mut self, mode: WriteFlushMode) -> Self {
        self.message.write_flush_mode = Some(schema::WriteFlushMode(mode as i32));
        self
    }

    /// Waits after each write until the data has reached the disk.
    #[must_use]
    pub fn sync_after_write(mut self) -> Self {
        self.message.fflush_post_write = Some(schema::FFlushMode::FFLUSH_ENABLED);
        self
    }

    /// Sets how packets are compressed.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.message.compression_type = None;
        self.message.compression = match compression {
            Compression::None => None,
            Compression::Deflate => Some(CompressionConfig {
                deflate: Some(Deflate::default()),
                ..CompressionConfig::default()
            }),
            Compression::Zstd { level } => Some(CompressionConfig {
                zstd: Some(Zstd {
                    level: Some(level),
                    ..Zstd::default()
                }),
                ..CompressionConfig::default()
            }),
        };
        self
    }

    /// Sets the UUID of the trace: its most significant and its least significant 64 bits. If both
    /// are 0, the UUID is random.
    #[must_use]
    pub fn trace_uuid(mut self, msb: i64, lsb: i64) -> Self {
        self.message.trace_uuid_msb = Some(msb);
        self.message.trace_uuid_lsb = Some(lsb);
        self
    }

    /// Adds an attribute of the trace, a key with a value, for this session. Of an attribute that the
    /// process has as well (see [`set_service`](crate::set_service)), the trace has this value.
    #[must_use]
    pub fn add_trace_attribute(
        mut self,
        key: impl Into<String>,
        value: impl Into<TraceAttributeValue>,
    ) -> Self {
        let attributes = self.message.trace_attributes.get_or_insert_default();
        attributes.attribute.push(Attribute {
            key: Some(key.into()),
            value: Some(value.into().into()),
            ..Attribute::default()
        });
        self
    }
}
