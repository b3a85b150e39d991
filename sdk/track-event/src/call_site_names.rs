//! The names of a call site, and their interning ids.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::encoding::EventBody;
use crate::interning::{NameKind, intern};
use tracezero_core::protos::TrackEvent;
use tracezero_core::protos::track_event::Type;

/// The names of a call site, and its place in the source.
#[derive(Debug)]
pub(super) struct CallSiteNames {
    /// The names of its categories, separated by commas.
    pub(super) category: &'static str,
    /// The name of its events; empty if the name is not a literal.
    pub(super) name: &'static str,
    pub(super) args: &'static [&'static str],
    /// `None` for call sites of the macros.
    pub(super) origin: Option<&'static Origin>,
    ids: OnceLock<CallSiteIds>,
}

/// The place of a call site in the source, if its events have one, and its own tags.
#[derive(Debug)]
pub struct Origin {
    /// The path of the source file; empty if it is not known.
    pub file: &'static str,
    /// The line in that file.
    pub line: u32,
    /// True if the name was made while the program ran.
    pub is_name_dynamic: bool,
    /// Tags in addition to those that were declared for the category.
    pub tags: &'static [&'static str],
}

/// The interning ids of a call site's names.
#[derive(Debug)]
pub(super) struct CallSiteIds {
    /// The number of the call site itself, counted from 0.
    pub(super) site: u32,
    /// The id of each of its categories.
    pub(super) categories: Box<[u32]>,
    /// The id of its name; 0 if it has no name.
    pub(super) event: u32,
    pub(super) args: Box<[u32]>,
    /// The id of its source location; 0 if events have none.
    pub(super) source_location: u32,
    /// The fields that all its events of one type have in common, encoded once; `None` if they are
    /// too long for that.
    begin: Option<EventBody>,
    instant: Option<EventBody>,
    end: Option<EventBody>,
}

impl CallSiteNames {
    pub(super) const fn new(
        category: &'static str,
        name: &'static str,
        args: &'static [&'static str],
        origin: Option<&'static Origin>,
    ) -> Self {
        Self {
            category,
            name,
            args,
            origin,
            ids: OnceLock::new(),
        }
    }

    /// Returns the ids; the first call creates them.
    #[inline]
    pub(super) fn ids(&self) -> &CallSiteIds {
        self.ids.get_or_init(|| {
            let categories: Box<[u32]> = self
                .categories()
                .map(|category| intern(NameKind::Category, category))
                .collect();
            let event = match self.name {
                "" => 0,
                name => intern(NameKind::Event, name),
            };
            let site = next_site();
            let source_location = match self.origin {
                // A call site has its own source location, so its number is free to use as an id.
                // Ids count from 1.
                Some(origin) if !origin.file.is_empty() => site + 1,
                _ => 0,
            };
            let mut ids = CallSiteIds {
                site,
                source_location,
                categories,
                event,
                args: self
                    .args
                    .iter()
                    .map(|name| intern(NameKind::Arg, name))
                    .collect(),
                begin: None,
                instant: None,
                end: None,
            };
            let body = |event_type| EventBody::encode(|event| ids.write_fields(event_type, event));
            let (begin, instant) = (body(Type::SLICE_BEGIN), body(Type::INSTANT));
            (ids.end, ids.begin, ids.instant) = (body(Type::SLICE_END), begin, instant);
            ids
        })
    }

    /// Iterates over the categories. Empty names are skipped: ends of spans have no category.
    pub(super) fn categories(&self) -> impl Iterator<Item = &'static str> {
        let categories = self.category.split(',').map(str::trim);
        categories.filter(|category| !category.is_empty())
    }
}

impl CallSiteIds {
    /// Writes the fields that all events of this type have in common.
    pub(super) fn write_fields(&self, event_type: Type, event: &mut TrackEvent<'_>) {
        event.set_type(event_type);
        // An end takes category and name from its begin.
        if event_type == Type::SLICE_END {
            return;
        }
        for &category in &self.categories {
            event.add_category_iids(u64::from(category));
        }
        if self.event != 0 {
            event.set_name_iid(u64::from(self.event));
        }
        if self.source_location != 0 {
            event.set_source_location_iid(u64::from(self.source_location));
        }
    }

    /// Returns the encoded form of [these fields](Self::write_fields).
    #[inline]
    pub(super) const fn body(&self, event_type: Type) -> Option<&EventBody> {
        match event_type {
            Type::SLICE_BEGIN => self.begin.as_ref(),
            Type::SLICE_END => self.end.as_ref(),
            _ => self.instant.as_ref(),
        }
    }
}

fn next_site() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the numbers must only be unique.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
