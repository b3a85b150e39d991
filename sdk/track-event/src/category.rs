//! Declarations of categories, and the switch behind `enabled!`.

use std::sync::atomic::{Ordering, fence};

use crate::ENABLED;
use crate::data_source::{self, Switch, TRACK_EVENT};
use crate::declared_categories::DeclaredCategories;
use tracezero_core::forked_child;
use tracezero_producer::{self as producer, ActiveSlots};

/// A declaration of a category: its name, description and tags.
///
/// Declarations are optional: a session can record any category, and choose it by name. A
/// declaration adds a description, which `service_state` lists, and tags, by which
/// `TrackEventConfig` chooses several categories at once. A category with the tag `slow` or `debug`
/// is off unless a session asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
}

impl Category {
    /// Creates a declaration without tags.
    #[must_use]
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description,
            tags: &[],
        }
    }

    /// Replaces the tags.
    #[must_use]
    pub const fn tags(mut self, tags: &'static [&'static str]) -> Self {
        self.tags = tags;
        self
    }

    /// Declares categories. May be called at any time and from any thread; running sessions apply
    /// the tags from then on. [`categories!`](crate::categories) is shorter.
    ///
    /// Several libraries may declare the same category, in any order. It then has the tags of all
    /// declarations, and the first description that is not empty.
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

/// The `static` behind each use of [`enabled!`](crate::enabled): tells whether any session records
/// the category.
#[derive(Debug)]
pub struct CategorySwitch {
    category: &'static str,
    active: ActiveSlots,
}

impl CategorySwitch {
    /// Creates a switch; the macro calls this.
    #[must_use]
    pub const fn new(category: &'static str) -> Self {
        Self {
            category,
            active: ActiveSlots::unregistered(),
        }
    }

    /// Returns true if any session records the category. Costs one relaxed load. Events that the
    /// thread records afterwards are in that session.
    #[inline(always)]
    #[must_use]
    pub fn is_on(&'static self) -> bool {
        let is_on = ENABLED && self.active.load(|| self.register()) != 0;
        if is_on {
            // Acquire pairs with the release in `ActiveSlots::store`: the masks of call sites were
            // stored before the mask of this switch.
            fence(Ordering::Acquire);
        }
        is_on
    }

    #[cold]
    fn register(&'static self) {
        let switch = Switch {
            category: self.category,
            tags: &[],
            active: &self.active,
            only_asks: true,
            library: None,
        };
        data_source::register(switch, || {});
    }
}
