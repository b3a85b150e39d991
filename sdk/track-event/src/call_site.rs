//! The `static` behind each use of a macro: which sessions record it, and its names.
//!
//! Call sites are not registered when a program starts. A call site registers with the data source
//! when a thread first reaches it. So trace points of a library work without a call by the
//! application.

use std::fmt;
use std::sync::OnceLock;

use crate::ENABLED;
use crate::call_site_names::{CallSiteNames, Origin};
use crate::counter_track::CounterTrack;
use crate::data_source::{self, Switch};
use tracezero_producer::ActiveSlots;

/// One place in the code that records events, as the macros define it.
pub struct CallSite {
    names: CallSiteNames,
    active: ActiveSlots,
    /// The counter track of a `counter!` whose name is a literal.
    counter: OnceLock<CounterTrack>,
}

impl CallSite {
    /// Creates a call site; the macros call this.
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

    /// Adds a source location and tags, for the call sites of a foreign library.
    #[must_use]
    pub const fn at(mut self, origin: &'static Origin) -> Self {
        self.names.origin = Some(origin);
        self
    }

    /// Returns a new call site with another name, and otherwise the same contents.
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

    /// Returns the names of its categories, separated by commas.
    #[must_use]
    pub const fn category(&self) -> &'static str {
        self.names.category
    }

    /// Returns the name of its events; empty if the name is not a literal.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.names.name
    }

    /// Returns its place in the source, if its events have one.
    #[must_use]
    pub const fn origin(&self) -> Option<&'static Origin> {
        self.names.origin
    }

    /// Returns its tags, which add to those that were declared for its category.
    #[must_use]
    pub fn tags(&self) -> &'static [&'static str] {
        self.names.origin.map_or(&[], |origin| origin.tags)
    }

    /// Returns the slots of the sessions that record this call site, as a bit mask. Costs one
    /// relaxed load.
    #[inline(always)]
    pub fn active_slots(&'static self) -> u32 {
        if !ENABLED {
            return 0;
        }
        self.active.load(|| self.register(None, false))
    }

    /// Registers the call site. If this call site stands for a call site of a library, `library` is
    /// the switch of the library's call site. That switch is on while this call site is on. If the
    /// library's call site `only_asks`, it records nothing.
    #[cold]
    pub(super) fn register(
        &'static self,
        library: Option<tracezero_events_core::Switch>,
        only_asks: bool,
    ) {
        let switch = Switch {
            category: self.category(),
            tags: self.tags(),
            active: &self.active,
            only_asks,
            library,
        };
        data_source::register(switch, || {
            // Makes the ids now, so that recording does not have to.
            self.names.ids();
        });
    }

    #[inline(always)]
    pub(super) const fn names(&self) -> &CallSiteNames {
        &self.names
    }

    /// Returns the counter with this call site's name; the first call creates it.
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
