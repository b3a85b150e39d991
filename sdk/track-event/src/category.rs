//! Declarations of categories, and switches that hang on them.

use crate::ENABLED;
use crate::data_source::{self, Switch, TRACK_EVENT};
use crate::declared_categories::DeclaredCategories;
use tracezero_core::forked_child;
use tracezero_producer::{self as producer, ActiveSlots};

/// What a program or library says about a category that its events have.
///
/// Nothing has to be declared: every category can be recorded, and be chosen by its name. A
/// declaration adds a description, for whoever lists the categories of a process
/// (`service_state`), and tags, by which
/// `TrackEventConfig` chooses several at once. Categories with the tag
/// `slow` or `debug` are off unless a session asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
}

impl Category {
    /// A category without tags.
    #[must_use]
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description,
            tags: &[],
        }
    }

    /// The category with these tags in place of those that it had.
    #[must_use]
    pub const fn tags(mut self, tags: &'static [&'static str]) -> Self {
        self.tags = tags;
        self
    }

    /// Declares categories, at any time and from any thread: sessions that record already apply
    /// the tags from then on. [`categories!`](crate::categories) is shorter.
    ///
    /// Libraries may declare the same category, in any order: it has the tags of all declarations,
    /// and the description of the first that has one.
    pub fn declare(categories: &[Self]) {
        let Some(_inside) = forked_child::enter() else {
            return;
        };
        let is_new = {
            let mut declared = DeclaredCategories::lock();
            categories.iter().fold(false, |is_new, category| {
                let Self {
                    name,
                    description,
                    tags,
                } = *category;
                declared.add(name, description, tags) | is_new
            })
        };
        if is_new {
            producer::declarations_changed(TRACK_EVENT.state());
        }
    }
}

/// Tells whether any session records a category: one `static` for each use of
/// [`enabled!`](crate::enabled).
#[derive(Debug)]
pub struct CategorySwitch {
    category: &'static str,
    active: ActiveSlots,
}

impl CategorySwitch {
    /// A switch; the macro makes these.
    #[must_use]
    pub const fn new(category: &'static str) -> Self {
        Self {
            category,
            active: ActiveSlots::unregistered(),
        }
    }

    /// Whether any session records the category: one relaxed load.
    #[inline(always)]
    #[must_use]
    pub fn is_on(&'static self) -> bool {
        ENABLED && self.active.load(|| self.register()) != 0
    }

    #[cold]
    fn register(&'static self) {
        let switch = Switch {
            category: self.category,
            tags: &[],
            active: &self.active,
            library: None,
        };
        data_source::register(switch, || {});
    }
}
