//! Where packets are kept until they are read.

use tracezero_core::protos::owned::trace_config as owned;
use tracezero_core::protos::trace_config::buffer_config::{ExperimentalMode, FillPolicy};

/// One central buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferConfig {
    pub(super) message: owned::BufferConfig,
    /// The limit to which a ring grows that is streamed into a file; `None` for a ring of fixed size.
    pub(super) limit_kb: Option<u32>,
}

impl BufferConfig {
    /// Creates a ring of `size_kb` KiB. In memory, its newest data overwrites the oldest. A session that writes a file
    /// moves the data there before that; while the file lags behind, threads wait
    /// ([`TraceConfig::wait_limit`](crate::TraceConfig::wait_limit)). The system gives memory only for what was ever
    /// written.
    #[must_use]
    pub fn ring(size_kb: u32) -> Self {
        Self::new(size_kb, FillPolicy::RING_BUFFER)
    }

    /// A buffer that keeps the oldest data and refuses the rest once it is full.
    #[must_use]
    pub fn discard(size_kb: u32) -> Self {
        Self::new(size_kb, FillPolicy::DISCARD)
    }

    fn new(size_kb: u32, fill_policy: FillPolicy) -> Self {
        Self {
            message: owned::BufferConfig {
                size_kb: Some(size_kb),
                fill_policy: Some(fill_policy),
                experimental_mode: Some(ExperimentalMode::TRACE_BUFFER_V2),
                ..owned::BufferConfig::default()
            },
            limit_kb: None,
        }
    }

    /// Lets a ring that is streamed into a file take as much memory as the file lags behind, up to
    /// `limit_kb` KiB, in place of a fixed size: usually some MiB. Has no effect on a session in
    /// memory, whose ring keeps its size.
    #[must_use]
    pub fn grow_to(mut self, limit_kb: u32) -> Self {
        self.limit_kb = Some(limit_kb);
        self
    }

    /// Gives the buffer a name that data sources can target; unique in its configuration. An empty one is
    /// none.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.message.name = Some(name.into());
        self
    }

    /// Cloning the session moves the buffer's content into the clone, instead of copying it.
    #[must_use]
    pub fn transfer_on_clone(mut self) -> Self {
        self.message.transfer_on_clone = Some(true);
        self
    }

    /// Cloning the session first empties the buffer: the clone holds what its flush brings.
    #[must_use]
    pub fn clear_before_clone(mut self) -> Self {
        self.message.clear_before_clone = Some(true);
        self
    }
}
