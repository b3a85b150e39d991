//! Records of `log`, which `tracing-log` makes events of: all of a level have one call site, and
//! their places as fields.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use parking_lot::Mutex;
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Level};

use super::site::Site;

/// Places that are told apart. Further ones are all one place.
const PLACES_MAX: usize = 16 * 1024;

/// By a hash of the place.
type Places = HashMap<u64, Vec<&'static Site>>;

static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(Mutex::default);
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

thread_local! {
    /// What a thread writes places into.
    static PLACE: Cell<Place> = const { Cell::new(Place::new()) };
}

/// The call site of a record; `None` if there are too many.
#[inline(never)] // Other events need none of it.
pub(super) fn site_of(event: &Event<'_>) -> Option<&'static Site> {
    // Without the thread's own at its end.
    let mut place = PLACE.try_with(Cell::take).unwrap_or_default();
    place.clear();
    event.record(&mut place);
    let site = place.site(*event.metadata().level());
    let _ = PLACE.try_with(|kept| kept.set(place));
    site
}

/// Where a record comes from.
#[derive(Debug, Default)]
struct Place {
    target: String,
    file: String,
    line: u64,
}

impl Place {
    const fn new() -> Self {
        Self {
            target: String::new(),
            file: String::new(),
            line: 0,
        }
    }

    /// Memory is kept.
    fn clear(&mut self) {
        self.target.clear();
        self.file.clear();
        self.line = 0;
    }

    fn site(&self, level: Level) -> Option<&'static Site> {
        let hash = HASHER.hash_one((&self.target, &self.file, self.line, level.as_str()));
        let mut places = PLACES.lock();
        let is_full = places.len() >= PLACES_MAX;
        let sites = places.get(&hash).map_or(&[][..], Vec::as_slice);
        let known = sites.iter().find(|site| self.is_of(site, level));
        if known.is_some() || is_full {
            return known.copied();
        }
        let line = u32::try_from(self.line).unwrap_or(0);
        let (target, file) = (self.target.clone(), self.file.clone());
        let site = Site::of_log_records(target, file, line, level);
        let site: &'static Site = Box::leak(Box::new(site));
        places.entry(hash).or_default().push(site);
        Some(site)
    }

    fn is_of(&self, site: &Site, level: Level) -> bool {
        let is_here = |file: &str, line| file == self.file && u64::from(line) == self.line;
        site.call_site.category == self.target
            && site.level.is_some_and(|(_, name)| name == level.as_str())
            && site
                .call_site
                .origin()
                .is_some_and(|origin| is_here(origin.file, origin.line))
    }
}

impl Visit for Place {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "log.target" => self.target.push_str(value),
            "log.file" => self.file.push_str(value),
            _ => {}
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "log.line" {
            self.line = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
