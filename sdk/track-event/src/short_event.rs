//! Writes the arguments of a short event straight into its packet.

use std::fmt;

use protozero::CompactValue;

use crate::arg::ArgValue;

/// An event whose packet is encoded in one go (see `event_packet.rs`).
pub struct ShortEvent<'e, 'r> {
    packet: &'e mut CompactValue<'r>,
    /// The interning ids of the names of the arguments that are still to be written.
    name_iids: &'e [u32],
}

impl<'e, 'r> ShortEvent<'e, 'r> {
    /// Creates an event whose arguments are appended to `packet`, under the names with these ids.
    #[inline(always)]
    pub(super) const fn new(packet: &'e mut CompactValue<'r>, name_iids: &'e [u32]) -> Self {
        Self { packet, name_iids }
    }

    /// Writes the next argument. Returns false if it does not fit.
    #[inline(always)]
    pub(super) fn put_arg(&mut self, value: &(impl ArgValue + ?Sized)) -> bool {
        let Some((name_iid, rest)) = self.name_iids.split_first() else {
            // The session filters arguments out.
            return true;
        };
        self.name_iids = rest;
        let scalar = value.scalar();
        scalar.is_some_and(|scalar| scalar.put(*name_iid, self.packet))
    }

    /// Writes arguments that were encoded earlier. Returns false if they do not fit.
    #[inline(always)]
    pub(super) fn put_encoded_args(&mut self, args: &[u8]) -> bool {
        // If there are no names, the session filters arguments out.
        self.name_iids.is_empty() || self.packet.put(args)
    }
}

impl fmt::Debug for ShortEvent<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortEvent")
            .field("name_iids", &self.name_iids)
            .finish_non_exhaustive()
    }
}
