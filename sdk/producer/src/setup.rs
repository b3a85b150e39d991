//! The session that an instance is set up for, and its configuration.

use std::fmt;

use tracezero_core::coordination::DataSourceSetup;
use tracezero_core::ids::SessionId;
use tracezero_core::protos::DataSourceConfigDecoder;

/// A session that wants a data source, and what its configuration says.
pub struct Setup<'s> {
    setup: &'s DataSourceSetup,
}

impl<'s> Setup<'s> {
    pub(crate) const fn new(setup: &'s DataSourceSetup) -> Self {
        Self { setup }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.setup.session
    }

    /// The `DataSourceConfig` of this data source, encoded.
    ///
    /// A data source may keep fields of its own there, from number 2000 on: its schema declares
    /// them in a message with these numbers, whose decoder reads these bytes and skips what it does
    /// not know. They get here by
    /// `DataSourceConfig::source_specific`.
    #[must_use]
    pub fn config(&self) -> &'s [u8] {
        &self.setup.config
    }

    /// Reads [`Setup::config`].
    #[must_use]
    pub fn decoder(&self) -> DataSourceConfigDecoder<'s> {
        DataSourceConfigDecoder::new(self.config())
    }
}

impl fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("session", &self.setup.session)
            .field("name", &self.setup.name)
            .finish_non_exhaustive()
    }
}
