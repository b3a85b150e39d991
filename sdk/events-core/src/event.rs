//! The data of one event.

use crate::value::Value;

/// The data of one event that its call site does not have: the values of its arguments, and perhaps
/// a name of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    name: Option<&'a str>,
    args: &'a [Value<'a>],
}

impl<'a> Event<'a> {
    /// Creates an event with values for the arguments, in the order of
    /// [`CallSite::arg_names`](crate::CallSite::arg_names).
    #[must_use]
    pub const fn new(args: &'a [Value<'a>]) -> Self {
        Self { name: None, args }
    }

    /// Sets a name, which takes the place of the call site's name.
    #[must_use]
    pub fn named(mut self, name: &'a (impl AsRef<str> + ?Sized)) -> Self {
        self.name = Some(name.as_ref());
        self
    }

    /// Returns the event's own name; `None` if the event has the call site's name.
    #[must_use]
    pub const fn name(&self) -> Option<&'a str> {
        self.name
    }

    /// Returns the values of the arguments, in the order of
    /// [`CallSite::arg_names`](crate::CallSite::arg_names).
    #[must_use]
    pub const fn args(&self) -> &'a [Value<'a>] {
        self.args
    }
}
