//! The names of a call site, and their numbers.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::encoding::EventBody;
use crate::interning::{NameKind, intern};
use tracezero_core::protos::TrackEvent;
use tracezero_core::protos::track_event::Type;

/// The names of a call site, and its place in the source.
#[derive(Debug)]
pub(super) struct CallSiteNames {
    /// The names of its categories, with commas between them.
    pub(super) category: &'static str,
    /// Empty for an event whose name is no literal.
    pub(super) name: &'static str,
    pub(super) args: &'static [&'static str],
    /// `None` for those of the macros.
    pub(super) origin: Option<&'static Origin>,
    ids: OnceLock<CallSiteIds>,
}

/// Where a call site is, if its events are to say so, and what else sessions choose it by.
#[derive(Debug)]
pub struct Origin {
    /// Path of the source file; empty if it is not known.
    pub file: &'static str,
    /// Line in that file.
    pub line: u32,
    /// Whether the name was made while the program ran.
    pub is_name_dynamic: bool,
    /// Beside those that were declared for its category.
    pub tags: &'static [&'static str],
}

/// The numbers of a call site's names.
#[derive(Debug)]
pub(super) struct CallSiteIds {
    /// The call site itself. Counts from 0.
    pub(super) site: u32,
    /// Of each category in the group.
    pub(super) categories: Box<[u32]>,
    /// 0 without a name.
    pub(super) event: u32,
    pub(super) args: Box<[u32]>,
    /// 0 if events do not say where they come from.
    pub(super) source_location: u32,
    /// The fields that all events have in common; `None` if they are too long to be encoded ahead.
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

    /// Returns the numbers, which the first call makes.
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
                // Each call site is at a place of its own.
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

    /// The categories of the events, which commas separate. An empty name is none: ends of spans have it.
    pub(super) fn categories(&self) -> impl Iterator<Item = &'static str> {
        let categories = self.category.split(',').map(str::trim);
        categories.filter(|category| !category.is_empty())
    }
}

impl CallSiteIds {
    /// The fields that all events of this type have in common.
    pub(super) fn write_fields(&self, event_type: Type, event: &mut TrackEvent<'_>) {
        event.set_type(event_type);
        // An end belongs to whatever began.
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

    /// Returns [these fields](Self::write_fields), encoded ahead.
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
    // Relaxed: only that each number is given once counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
