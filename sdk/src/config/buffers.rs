//! The configuration of trace buffers, which hold packets until they are read.

use tracezero_core::protos::owned::trace_config as owned;
use tracezero_core::protos::trace_config::buffer_config::{ExperimentalMode, FillPolicy};

/// The configuration of one trace buffer.
///
/// ```
/// use tracezero::{BufferConfig, TraceConfig, instant};
///
/// let session = TraceConfig::empty()
///     .add_buffer(BufferConfig::discard(64))
///     .record_all()
///     .record_in_memory()?;
/// for number in 0..20_000 {
///     instant!("app", "step", number);
/// }
/// // The buffer keeps the oldest events.
/// let (_, report) = session.finish();
/// assert!(report.events > 0);
/// assert!(report.losses.discarded > 0);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BufferConfig {
    pub(super) message: owned::BufferConfig,
    /// The size to which a ring grows if its session streams into a file; `None` for a fixed size.
    pub(super) limit_kib: Option<u32>,
}

impl BufferConfig {
    /// Creates a ring of `size_kib` KiB. In a session in memory, the newest packets overwrite the
    /// oldest. A session that streams into a file moves packets to the file before they are
    /// overwritten. If the file lags behind, threads wait for it
    /// ([`TraceConfig::wait_limit`](crate::TraceConfig::wait_limit)). The operating system provides
    /// memory only for the part of the ring that was written.
    #[must_use]
    pub fn ring(size_kib: u32) -> Self {
        Self::new(size_kib, FillPolicy::RING_BUFFER)
    }

    /// Creates a buffer that keeps the oldest data and refuses new data once it is full.
    #[must_use]
    pub fn discard(size_kib: u32) -> Self {
        Self::new(size_kib, FillPolicy::DISCARD)
    }

    fn new(size_kib: u32, fill_policy: FillPolicy) -> Self {
        Self {
            message: owned::BufferConfig {
                size_kb: Some(size_kib),
                fill_policy: Some(fill_policy),
                experimental_mode: Some(ExperimentalMode::TRACE_BUFFER_V2),
                ..owned::BufferConfig::default()
            },
            limit_kib: None,
        }
    }

    /// Lets the ring grow while the file that it is streamed into lags behind, up to `limit_kib`
    /// KiB. Usually some MiB are enough. In a session in memory, this setting has no effect: the
    /// ring keeps its size.
    #[must_use]
    pub fn grow_to(mut self, limit_kib: u32) -> Self {
        self.limit_kib = Some(limit_kib);
        self
    }

    /// Sets the name by which data sources can target the buffer. It must be unique in the
    /// configuration. An empty name counts as no name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.message.name = Some(name.into());
        self
    }

    /// Moves the buffer's content into the clone, instead of copying it, when the session is
    /// cloned.
    #[must_use]
    pub fn transfer_on_clone(mut self) -> Self {
        self.message.transfer_on_clone = Some(true);
        self
    }

    /// Empties the buffer before the session is cloned. The clone's buffer then holds only what
    /// data sources flush for the clone.
    #[must_use]
    pub fn clear_before_clone(mut self) -> Self {
        self.message.clear_before_clone = Some(true);
        self
    }
}
