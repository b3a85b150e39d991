//! The state of a guard, which is empty in programs that are built without tracing.

use std::marker::PhantomData;

/// An `Option` that is always `None` and takes no room under `cfg(tracezero_off)`.
#[derive(Debug)]
pub(super) struct GuardState<T> {
    #[cfg(not(tracezero_off))]
    value: Option<T>,
    of: PhantomData<T>,
}

impl<T> GuardState<T> {
    pub(super) const NOTHING: Self = Self {
        #[cfg(not(tracezero_off))]
        value: None,
        of: PhantomData,
    };

    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        #[cfg(tracezero_off)]
        drop(value);
        Self {
            #[cfg(not(tracezero_off))]
            value: Some(value),
            of: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) const fn as_ref(&self) -> Option<&T> {
        #[cfg(tracezero_off)]
        return None;
        #[cfg(not(tracezero_off))]
        self.value.as_ref()
    }

    #[inline(always)]
    pub(super) const fn as_mut(&mut self) -> Option<&mut T> {
        #[cfg(tracezero_off)]
        return None;
        #[cfg(not(tracezero_off))]
        self.value.as_mut()
    }

    #[inline(always)]
    pub(super) const fn take(&mut self) -> Option<T> {
        #[cfg(tracezero_off)]
        return None;
        #[cfg(not(tracezero_off))]
        self.value.take()
    }
}
