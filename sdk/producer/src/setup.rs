//! The session and configuration of an instance that is being set up.

use std::fmt;

use tracezero_core::coordination::DataSourceSetup;
use tracezero_core::ids::SessionId;
use tracezero_core::protos::DataSourceConfigDecoder;

/// The session that an instance is created for, and the instance's configuration.
pub struct Setup<'s> {
    setup: &'s DataSourceSetup,
}

impl<'s> Setup<'s> {
    pub(crate) const fn new(setup: &'s DataSourceSetup) -> Self {
        Self { setup }
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.setup.session
    }

    /// Returns the encoded `DataSourceConfig` of this data source.
    ///
    /// The message may have fields of your own, with numbers from 2000 on. Declare them in a
    /// message of your schema with the same numbers; its decoder reads these bytes and skips
    /// unknown fields. A session sets them with `DataSourceConfig::source_specific`.
    #[must_use]
    pub fn config(&self) -> &'s [u8] {
        &self.setup.config
    }

    /// Returns a decoder of [`Setup::config`].
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
