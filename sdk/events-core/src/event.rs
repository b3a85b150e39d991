//! What an event carries.

use crate::value::Value;

/// What an event carries beside what its call site says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    name: Option<&'a str>,
    args: &'a [Value<'a>],
}

impl<'a> Event<'a> {
    /// Creates an event with the values of the arguments, in the order of the call site's names.
    #[must_use]
    pub const fn new(args: &'a [Value<'a>]) -> Self {
        Self { name: None, args }
    }

    /// Replaces the call site's name.
    #[must_use]
    pub fn named(mut self, name: &'a (impl AsRef<str> + ?Sized)) -> Self {
        self.name = Some(name.as_ref());
        self
    }

    /// Returns the name, if it is not that of the call site.
    #[must_use]
    pub const fn name(&self) -> Option<&'a str> {
        self.name
    }

    /// Returns the values of the arguments, in the order of the call site's names.
    #[must_use]
    pub const fn args(&self) -> &'a [Value<'a>] {
        self.args
    }
}
