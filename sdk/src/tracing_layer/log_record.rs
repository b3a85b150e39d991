//! Records of the `log` crate, which `tracing-log` turns into events. All records of a level have
//! the same `tracing` callsite; their source locations are fields.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Level};

use super::growing_table::GrowingTable;
use super::site::Site;

/// The number of source locations that get call sites of their own. Records of all further
/// locations use the call site of their level.
const SITES_MAX: usize = 16 * 1024;
/// The number of call sites in a bucket.
const BUCKET_SITES: usize = 4;

/// Call sites by a hash of their source location.
static PLACES: GrowingTable<[OnceLock<&'static Site>; BUCKET_SITES]> = GrowingTable::new();
static SITE_COUNT: AtomicUsize = AtomicUsize::new(0);
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

thread_local! {
    /// Reusable memory for a thread's source locations.
    static PLACE: Cell<Place> = const { Cell::new(Place::new()) };
}

/// Returns the call site of a record, or `None` if there are too many call sites.
#[inline(never)] // Other events need none of it.
pub(super) fn site_of(event: &Event<'_>) -> Option<&'static Site> {
    // When the thread-locals are destroyed, new memory is used.
    let mut place = PLACE.try_with(Cell::take).unwrap_or_default();
    place.clear();
    event.record(&mut place);
    let site = place.site(*event.metadata().level());
    let _ = PLACE.try_with(|kept| kept.set(place));
    site
}

/// The source location of a record.
#[derive(Debug, Default)]
struct Place {
    target: String,
    file: String,
    line: u32,
}

impl Place {
    const fn new() -> Self {
        Self {
            target: String::new(),
            file: String::new(),
            line: 0,
        }
    }

    /// Clears the fields and keeps their memory.
    fn clear(&mut self) {
        self.target.clear();
        self.file.clear();
        self.line = 0;
    }

    fn site(&self, level: Level) -> Option<&'static Site> {
        let hash = HASHER.hash_one((&self.target, &self.file, self.line, level.as_str()));
        let known = PLACES.buckets(hash).find_map(|(_, bucket)| {
            let mut sites = bucket.iter().map_while(|site| site.get().copied());
            sites.find(|site| self.is_of(site, level))
        });
        known.or_else(|| self.add_site(hash, level))
    }

    #[cold]
    fn add_site(&self, hash: u64, level: Level) -> Option<&'static Site> {
        // Relaxed: the count only limits the table, and each thread may exceed it by one.
        if SITE_COUNT.load(Ordering::Relaxed) >= SITES_MAX {
            return None;
        }
        // Threads that add the same call site at once try the same buckets in the same order, so
        // they share one entry.
        PLACES.all_buckets(hash).find_map(|(_, bucket)| {
            let mut sites = bucket.iter().map(|site| {
                *site.get_or_init(|| {
                    // Relaxed: as above.
                    SITE_COUNT.fetch_add(1, Ordering::Relaxed);
                    let (target, file) = (self.target.clone(), self.file.clone());
                    let site = Site::of_log_records(target, file, self.line, level);
                    Box::leak(Box::new(site))
                })
            });
            sites.find(|site| self.is_of(site, level))
        })
    }

    fn is_of(&self, site: &Site, level: Level) -> bool {
        let is_here = |file: &str, line| file == self.file && line == self.line;
        site.call_site.category() == self.target
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
            self.line = u32::try_from(value).unwrap_or(0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
