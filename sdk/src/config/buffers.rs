//! Where packets are kept until they are read.

/// The policy of a full buffer: which packets it loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FillPolicy {
    /// Newer chunks overwrite the oldest ones.
    Ring,
    /// The first chunk that does not fit is refused, and so is every later one, read or not.
    Discard,
}

/// One central buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferConfig {
    pub(crate) size_kb: u32,
    /// The limit to which a ring grows that is streamed into a file; `None` for a ring of fixed size.
    pub(crate) limit_kb: Option<u32>,
    pub(crate) fill_policy: FillPolicy,
    pub(crate) name: Option<String>,
    pub(crate) transfer_on_clone: bool,
    pub(crate) clear_before_clone: bool,
}

impl BufferConfig {
    /// A buffer in which the newest data overwrites the oldest. `size_kb` counts KiB; memory is
    /// used only as far as the buffer ever fills.
    #[must_use]
    pub const fn ring(size_kb: u32) -> Self {
        Self::new(size_kb, FillPolicy::Ring)
    }

    /// A buffer that keeps the oldest data and refuses the rest once it is full.
    #[must_use]
    pub const fn discard(size_kb: u32) -> Self {
        Self::new(size_kb, FillPolicy::Discard)
    }

    pub(super) const fn new(size_kb: u32, fill_policy: FillPolicy) -> Self {
        Self {
            size_kb,
            limit_kb: None,
            fill_policy,
            name: None,
            transfer_on_clone: false,
            clear_before_clone: false,
        }
    }

    /// Lets a ring that is streamed into a file take as much memory as the file lags behind, up to
    /// `limit_kb` KiB, in place of a fixed size: usually some MiB. Has no effect on a session in
    /// memory, whose ring keeps its size.
    #[must_use]
    pub const fn grow_to(mut self, limit_kb: u32) -> Self {
        self.limit_kb = Some(limit_kb);
        self
    }

    /// Gives the buffer a name that data sources can target; unique in its configuration.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Cloning the session moves the buffer's content into the clone, instead of copying it.
    #[must_use]
    pub const fn transfer_on_clone(mut self) -> Self {
        self.transfer_on_clone = true;
        self
    }

    /// Cloning the session first empties the buffer: the clone holds what its flush brings.
    #[must_use]
    pub const fn clear_before_clone(mut self) -> Self {
        self.clear_before_clone = true;
        self
    }
}
