//! How an operation fails inside of the machine.

use crate::error::{AbortCause, Missing};

/// The two statuses other than Ok.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// Something is absent; abort levels decide what follows.
    Missing(Missing),
    /// Ends the patch.
    Abort(AbortCause),
}

impl From<AbortCause> for Failure {
    fn from(cause: AbortCause) -> Self {
        Self::Abort(cause)
    }
}
