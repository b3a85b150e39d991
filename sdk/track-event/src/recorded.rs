//! What guards keep of a recording.

use std::marker::PhantomData;

/// An `Option` that is always `None`, and takes no room, with the feature `off`.
#[derive(Debug)]
pub(super) struct Recorded<T> {
    #[cfg(not(feature = "off"))]
    value: Option<T>,
    of: PhantomData<T>,
}

impl<T> Recorded<T> {
    pub(super) const NOTHING: Self = Self {
        #[cfg(not(feature = "off"))]
        value: None,
        of: PhantomData,
    };

    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        #[cfg(feature = "off")]
        drop(value);
        Self {
            #[cfg(not(feature = "off"))]
            value: Some(value),
            of: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) const fn as_ref(&self) -> Option<&T> {
        #[cfg(feature = "off")]
        return None;
        #[cfg(not(feature = "off"))]
        self.value.as_ref()
    }

    #[inline(always)]
    pub(super) const fn as_mut(&mut self) -> Option<&mut T> {
        #[cfg(feature = "off")]
        return None;
        #[cfg(not(feature = "off"))]
        self.value.as_mut()
    }

    #[inline(always)]
    pub(super) const fn take(&mut self) -> Option<T> {
        #[cfg(feature = "off")]
        return None;
        #[cfg(not(feature = "off"))]
        self.value.take()
    }
}
