//! Descriptions and tags of the categories that were declared.

use parking_lot::{Mutex, MutexGuard};

use crate::category_filter::CategoryFilter;
use tracezero_core::coordination::CategoryDescriptor;
use tracezero_core::small_map::SmallMap;

static DECLARED: Mutex<DeclaredCategories> = Mutex::new(DeclaredCategories {
    by_name: SmallMap::new(),
});

/// All declarations so far. This lock may be taken while the registry of data sources is locked.
/// So a thread that holds this lock must not lock the registry.
#[derive(Debug)]
pub(crate) struct DeclaredCategories {
    by_name: SmallMap<&'static str, Declaration>,
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

    /// Adds a declaration of a category. Returns true if it changed anything.
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        description: &'static str,
        tags: &[&'static str],
    ) -> bool {
        let mut is_new = !self.by_name.contains_key(name);
        let declaration = self.by_name.or_default(name);
        if declaration.description.is_empty() && !description.is_empty() {
            declaration.description = description;
            is_new = true;
        }
        for tag in tags {
            if !declaration.tags.contains(tag) {
                declaration.tags.push(tag);
                is_new = true;
            }
        }
        is_new
    }

    /// Returns true if `filter` enables the events of a category. `category` is one name, or
    /// several separated by commas; one enabled name is enough. Each name is judged with its
    /// declared tags and with `tags`, the call site's own.
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

    /// Appends the names and the tags of all declarations.
    pub(crate) fn add_to(&self, names: &mut Vec<&'static str>, tags: &mut Vec<&'static str>) {
        for (name, declaration) in self.by_name.iter() {
            names.push(name);
            tags.extend(&declaration.tags);
        }
    }

    /// Returns the descriptors of all declared categories, sorted by name.
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
