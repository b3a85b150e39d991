//! The `static` behind each use of a macro: on or off, and what it is called.

use std::fmt;
use std::sync::OnceLock;

use super::arg::{Args, CounterValue};
use super::interning::{NameKind, intern};
use super::span::Span;
use super::{TRACK_EVENT, track};
use crate::clock;
use crate::producer::{self, ActiveSlots};

/// One place in the code that records events.
pub struct CallSite {
    pub(crate) category: &'static str,
    pub(super) name: &'static str,
    pub(super) arg_names: &'static [&'static str],
    active: ActiveSlots,
    ids: OnceLock<CallSiteIds>,
}

/// The numbers of a call site's names.
#[derive(Debug)]
pub(super) struct CallSiteIds {
    pub(super) category: u32,
    pub(super) event: u32,
    pub(super) args: Box<[u32]>,
    /// For counters.
    pub(super) counter: u32,
    pub(super) counter_track: u64,
}

impl CallSite {
    /// A call site; the macros make these.
    #[must_use]
    pub const fn new(
        category: &'static str,
        name: &'static str,
        arg_names: &'static [&'static str],
    ) -> Self {
        Self {
            category,
            name,
            arg_names,
            active: ActiveSlots::unregistered(),
            ids: OnceLock::new(),
        }
    }

    /// The sessions that record this call site, as a bit mask: one relaxed load.
    #[inline(always)]
    pub fn active_slots(&'static self) -> u32 {
        self.active.load(|| producer::register_call_site(self))
    }

    /// Begins a span in the sessions of `slots`.
    #[inline(never)]
    pub fn begin_span(&'static self, slots: u32, args: impl Fn(&mut Args<'_, '_>)) -> Span {
        let timestamp_ns = clock::now_ns();
        producer::with_instances(&TRACK_EVENT, slots, |instance| {
            let ids = self.ids();
            let writer = &mut instance.writer;
            instance
                .events
                .begin_slice(writer, timestamp_ns, self, ids, &args);
        });
        Span::begun(slots)
    }

    /// Records an instant in the sessions of `slots`.
    #[inline(never)]
    pub fn instant(&'static self, slots: u32, args: impl Fn(&mut Args<'_, '_>)) {
        let timestamp_ns = clock::now_ns();
        producer::with_instances(&TRACK_EVENT, slots, |instance| {
            let ids = self.ids();
            let writer = &mut instance.writer;
            instance
                .events
                .instant(writer, timestamp_ns, self, ids, &args);
        });
    }

    /// Records the value of a counter in the sessions of `slots`.
    #[inline]
    pub fn counter(&'static self, slots: u32, value: impl Into<CounterValue>) {
        self.count(slots, value.into());
    }

    #[inline(never)]
    fn count(&'static self, slots: u32, value: CounterValue) {
        let timestamp_ns = clock::now_ns();
        producer::with_instances(&TRACK_EVENT, slots, |instance| {
            let ids = self.ids();
            let writer = &mut instance.writer;
            instance
                .events
                .counter(writer, timestamp_ns, self, ids, value);
        });
    }

    pub(crate) fn active(&self) -> &ActiveSlots {
        &self.active
    }

    /// Finds the numbers, so that recording does not have to.
    pub(crate) fn intern(&self) {
        self.ids();
    }

    #[inline]
    fn ids(&self) -> &CallSiteIds {
        self.ids.get_or_init(|| CallSiteIds {
            category: intern(NameKind::Category, self.category),
            event: intern(NameKind::Event, self.name),
            args: self
                .arg_names
                .iter()
                .map(|name| intern(NameKind::Arg, name))
                .collect(),
            counter: intern(NameKind::CounterTrack, self.name),
            counter_track: track::counter_uuid(self.name),
        })
    }
}

/// Writes no arguments.
#[inline]
pub fn no_args(_: &mut Args<'_, '_>) {}

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSite")
            .field("category", &self.category)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
