//! Categories: what declarations say about them, and switches that hang on them.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

use super::category_filter::CategoryFilter;
use super::switches;
use super::{ENABLED, TRACK_EVENT};
use tracezero_core::coordination::CategoryDescriptor;
use tracezero_core::forked_child;
use tracezero_producer::{self as producer, ActiveSlots};

static DECLARED: Mutex<DeclaredCategories> = Mutex::new(DeclaredCategories {
    by_name: BTreeMap::new(),
});

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
            let mut declared = DECLARED.lock();
            categories
                .iter()
                .fold(false, |is_new, category| declared.add(category) | is_new)
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
        ENABLED
            && self
                .active
                .load(|| switches::register_switch(self.category, &self.active))
                != 0
    }
}

/// What is declared so far. Locked inside of the registry of data sources.
#[derive(Debug)]
pub(crate) struct DeclaredCategories {
    by_name: BTreeMap<&'static str, Declaration>,
}

#[derive(Debug, Default)]
struct Declaration {
    description: &'static str,
    tags: Vec<&'static str>,
}

impl DeclaredCategories {
    pub(crate) fn lock() -> MutexGuard<'static, Self> {
        DECLARED.lock()
    }

    /// Returns whether this says something new.
    fn add(&mut self, category: &Category) -> bool {
        let mut is_new = !self.by_name.contains_key(category.name);
        let declaration = self.by_name.entry(category.name).or_default();
        if declaration.description.is_empty() && !category.description.is_empty() {
            declaration.description = category.description;
            is_new = true;
        }
        for tag in category.tags {
            if !declaration.tags.contains(tag) {
                declaration.tags.push(tag);
                is_new = true;
            }
        }
        is_new
    }

    /// Whether `filter` lets events with this category through: one name, or several with commas
    /// in between, of which one is enough. `tags` are those of a call site, beside what was declared. Each
    /// name of several is judged with the tags that were declared for it.
    pub(crate) fn are_enabled(
        &self,
        category: &str,
        tags: &[&str],
        filter: &CategoryFilter,
    ) -> bool {
        category.split(',').map(str::trim).any(|name| {
            let declaration = self.by_name.get(name);
            let declared = declaration.map_or(&[][..], |declaration| &declaration.tags);
            if tags.is_empty() {
                filter.enables(name, declared)
            } else {
                filter.enables(name, &[declared, tags].concat())
            }
        })
    }

    /// Adds the names of all, and their tags.
    pub(crate) fn add_to(&self, names: &mut Vec<&'static str>, tags: &mut Vec<&'static str>) {
        for (name, declaration) in &self.by_name {
            names.push(name);
            tags.extend(&declaration.tags);
        }
    }

    /// In the order of their names.
    pub(crate) fn descriptors(&self) -> Vec<CategoryDescriptor> {
        self.by_name
            .iter()
            .map(|(&name, declaration)| CategoryDescriptor {
                name: name.to_owned(),
                description: declaration.description.to_owned(),
                tags: declaration.tags.iter().map(|&tag| tag.to_owned()).collect(),
            })
            .collect()
    }
}
