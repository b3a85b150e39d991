//! Arguments of an event whose packet is put together where it stands.

use std::fmt;

use protozero::CompactValue;

use crate::arg::ArgValue;

/// An event that is put together.
pub struct ShortEvent<'e, 'r> {
    packet: &'e mut CompactValue<'r>,
    /// Interned ids of the names of the arguments that are still to come.
    name_iids: &'e [u32],
}

impl<'e, 'r> ShortEvent<'e, 'r> {
    /// An event whose arguments get names with these ids, behind what `packet` has already.
    #[inline(always)]
    pub(super) const fn new(packet: &'e mut CompactValue<'r>, name_iids: &'e [u32]) -> Self {
        Self { packet, name_iids }
    }

    /// Puts the next argument. Returns whether it fits.
    #[inline(always)]
    pub(super) fn put_arg(&mut self, value: &(impl ArgValue + ?Sized)) -> bool {
        let Some((name_iid, rest)) = self.name_iids.split_first() else {
            // Nobody wants arguments.
            return true;
        };
        self.name_iids = rest;
        let scalar = value.scalar();
        scalar.is_some_and(|scalar| scalar.put(*name_iid, self.packet))
    }

    /// Puts arguments that were encoded before. Returns whether they fit.
    #[inline(always)]
    pub(super) fn put_encoded_args(&mut self, args: &[u8]) -> bool {
        // Without names the session wants no arguments.
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
