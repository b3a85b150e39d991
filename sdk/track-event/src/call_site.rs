//! The `static` behind each use of a macro: on or off, and what it is called.
//!
//! Nothing registers call sites when a program starts. A call site makes itself known to the data source when a
//! thread reaches it first. So trace points of a library work without a call by the application.

use std::fmt;
use std::sync::OnceLock;

use crate::ENABLED;
use crate::call_site_names::{CallSiteNames, Origin};
use crate::counter_track::CounterTrack;
use crate::data_source::{self, Switch};
use tracezero_producer::ActiveSlots;

/// One place in the code that records events.
pub struct CallSite {
    names: CallSiteNames,
    active: ActiveSlots,
    /// For counters whose name is a literal.
    counter: OnceLock<CounterTrack>,
}

impl CallSite {
    /// A call site; the macros make these.
    #[must_use]
    pub const fn new(
        category: &'static str,
        name: &'static str,
        arg_names: &'static [&'static str],
    ) -> Self {
        Self::with_names(CallSiteNames::new(category, name, arg_names, None))
    }

    const fn with_names(names: CallSiteNames) -> Self {
        Self {
            names,
            active: ActiveSlots::unregistered(),
            counter: OnceLock::new(),
        }
    }

    /// The call site of a library that has call sites of its own.
    #[must_use]
    pub const fn at(mut self, origin: &'static Origin) -> Self {
        self.names.origin = Some(origin);
        self
    }

    /// Returns a call site that differs in its name.
    #[must_use]
    pub const fn renamed(&self, name: &'static str) -> Self {
        let CallSiteNames {
            category,
            args,
            origin,
            ..
        } = self.names;
        Self::with_names(CallSiteNames::new(category, name, args, origin))
    }

    /// The names of its categories, with commas between them.
    #[must_use]
    pub const fn category(&self) -> &'static str {
        self.names.category
    }

    /// The name of its events; empty if it is no literal.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.names.name
    }

    /// Where it is in the source, if its events say so.
    #[must_use]
    pub const fn origin(&self) -> Option<&'static Origin> {
        self.names.origin
    }

    /// Tags beside those that were declared for the category.
    #[must_use]
    pub fn tags(&self) -> &'static [&'static str] {
        self.names.origin.map_or(&[], |origin| origin.tags)
    }

    /// The sessions that record this call site, as a bit mask: one relaxed load.
    #[inline(always)]
    pub fn active_slots(&'static self) -> u32 {
        if !ENABLED {
            return 0;
        }
        self.active.load(|| self.register(None))
    }

    /// Registers the call site, and that of a library, which is on while this one is.
    #[cold]
    pub(super) fn register(&'static self, library: Option<tracezero_events_core::Switch>) {
        let switch = Switch {
            category: self.category(),
            tags: self.tags(),
            active: &self.active,
            library,
        };
        data_source::register(switch, || {
            // So that recording does not have to.
            self.names.ids();
        });
    }

    #[inline(always)]
    pub(super) const fn names(&self) -> &CallSiteNames {
        &self.names
    }

    /// Returns the counter with this call site's name, which the first call makes.
    pub(super) fn own_counter(&self) -> &CounterTrack {
        self.counter
            .get_or_init(|| CounterTrack::new(self.names.name))
    }
}

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSite")
            .field("category", &self.names.category)
            .field("name", &self.names.name)
            .finish_non_exhaustive()
    }
}
