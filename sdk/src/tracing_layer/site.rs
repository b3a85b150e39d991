//! Call sites of `tracing`, with what is kept for each: the numbers of its names, whether sessions
//! record it, and what its spans were like so far.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tracing_core::{Level, Metadata};

use super::levels::Levels;
use crate::CounterTrack;
use crate::track_event::{CallSite, Origin, Placement};

/// Fields whose names begin with this are counters.
const COUNTER_PREFIX: &str = "counter.";
/// What events are called by `tracing` itself, with their place.
const DEFAULT_EVENT_NAME_PREFIX: &str = "event ";
/// What the crate `tracing-log` calls the call sites of all records.
const LOG_NAME: &str = "log event";
const LOG_TARGET: &str = "log";

/// Spans of a call site that must have been entered once, and none twice, until its next ones are
/// taken for synchronous.
const SYNCHRONOUS_AFTER: u32 = 16;
/// The spans of a call site are asynchronous.
const ASYNCHRONOUS: u32 = u32::MAX;
/// Other spans follow from those of a call site.
const FOLLOWED: u32 = u32::MAX - 1;

/// A call site. There is one for each callsite of `tracing`, and for each place of `log` records.
#[derive(Debug)]
pub(super) struct Site {
    /// Address of the metadata, which is static; 0 for a place of `log` records.
    address: usize,
    pub(super) call_site: CallSite,
    /// The same for names that are no literals.
    unnamed: CallSite,
    pub(super) fields: Box<[FieldKind]>,
    /// Position of the level among the arguments; `None` for spans, which do not tell it.
    pub(super) level: Option<(usize, &'static str)>,
    pub(super) is_log: bool,
    /// What the first of its events said. Most always say the same.
    first_message: OnceLock<CallSite>,
    /// How many spans were entered once, up to [`SYNCHRONOUS_AFTER`]; or one of the constants.
    pattern: AtomicU32,
}

/// What becomes of a field.
#[derive(Debug)]
pub(super) enum FieldKind {
    Argument,
    /// The name of the event.
    Message,
    Counter(CounterTrack),
    /// Says where a `log` record comes from.
    LogOrigin,
}

/// Call sites that share a bucket.
type Bucket = [OnceLock<Site>; 4];

static SITES: Levels<Bucket> = Levels::new();

/// The call site of this metadata; `None` if there are far too many.
#[inline]
pub(super) fn site_of(metadata: &'static Metadata<'static>) -> Option<&'static Site> {
    let address = std::ptr::from_ref(metadata).addr();
    // The lowest bits of all addresses are the same.
    let known = SITES.buckets(address as u64 >> 3).find_map(|(_, bucket)| {
        let mut sites = bucket.iter().map_while(OnceLock::get);
        sites.find(|site| site.address == address)
    });
    known.or_else(|| add_site(metadata, address))
}

#[cold]
fn add_site(metadata: &'static Metadata<'static>, address: usize) -> Option<&'static Site> {
    // Threads that add the same one try the same places in the same order, and so meet.
    SITES
        .all_buckets(address as u64 >> 3)
        .find_map(|(_, bucket)| {
            let mut sites = bucket
                .iter()
                .map(|place| place.get_or_init(|| Site::new(metadata, address)));
            sites.find(|site| site.address == address)
        })
}

impl Site {
    fn new(metadata: &'static Metadata<'static>, address: usize) -> Self {
        let is_event = metadata.is_event();
        let is_log = is_event && metadata.name() == LOG_NAME && metadata.target() == LOG_TARGET;
        let has_own_name = !metadata.name().starts_with(DEFAULT_EVENT_NAME_PREFIX) && !is_log;
        let kind = |name: &str| match name.strip_prefix(COUNTER_PREFIX) {
            Some(counter) if is_event => FieldKind::Counter(CounterTrack::new(counter.to_owned())),
            _ if is_event && name == "message" && !has_own_name => FieldKind::Message,
            _ if is_log && name.starts_with("log.") => FieldKind::LogOrigin,
            _ => FieldKind::Argument,
        };
        let names: Vec<_> = metadata.fields().iter().map(|field| field.name()).collect();
        let origin = Origin {
            file: metadata.file().unwrap_or(""),
            line: metadata.line().unwrap_or(0),
            is_name_dynamic: false,
            tags: level_tags(*metadata.level()),
        };
        Self {
            address,
            is_log,
            fields: names.iter().map(|name| kind(name)).collect(),
            ..Self::with_names(
                metadata.target(),
                metadata.name(),
                names,
                origin,
                is_event.then_some(*metadata.level()),
            )
        }
    }

    /// The place of `log` records of a level.
    pub(super) fn of_log_records(target: String, file: String, line: u32, level: Level) -> Self {
        let origin = Origin {
            file: file.leak(),
            line,
            is_name_dynamic: false,
            tags: level_tags(level),
        };
        Self::with_names(target.leak(), LOG_NAME, Vec::new(), origin, Some(level))
    }

    fn with_names(
        target: &'static str,
        name: &'static str,
        mut names: Vec<&'static str>,
        origin: Origin,
        level: Option<Level>,
    ) -> Self {
        let level = level.map(|level| (names.len(), level.as_str()));
        if level.is_some() {
            names.push("level");
        }
        // There is one for each place in the program.
        let (names, origin) = (names.leak(), Box::leak(Box::new(origin)));
        let call_site = CallSite::new(target, name, names).at(origin);
        Self {
            address: 0,
            unnamed: call_site.renamed(""),
            call_site,
            fields: Box::new([]),
            level,
            is_log: false,
            first_message: OnceLock::new(),
            pattern: AtomicU32::new(0),
        }
    }

    /// What to record events with this name by, that of the call site if it is empty.
    #[inline]
    pub(super) fn named<'a>(&'static self, name: &'a str) -> (&'static CallSite, Placement<'a>) {
        if name.is_empty() {
            (&self.call_site, Placement::new())
        } else {
            (&self.unnamed, Placement::new().named(name))
        }
    }

    /// The call site for an event that says `message`, if that is what the first one said: it has
    /// the message as its name.
    #[inline]
    pub(super) fn with_message(&'static self, message: &str) -> Option<&'static CallSite> {
        let first = self.first_message.get_or_init(|| {
            let origin = self
                .call_site
                .origin()
                .map_or(("", 0), |it| (it.file, it.line));
            let origin = Origin {
                file: origin.0,
                line: origin.1,
                is_name_dynamic: true,
                tags: self.call_site.tags(),
            };
            self.call_site
                .renamed(message.to_owned().leak())
                .at(Box::leak(Box::new(origin)))
        });
        (first.name() == message).then_some(first)
    }

    /// Whether spans of this call site are entered more than once.
    #[inline]
    pub(super) fn is_asynchronous(&self) -> bool {
        self.pattern() == ASYNCHRONOUS
    }

    /// Whether they may be, as far as that is known.
    pub(super) fn may_be_asynchronous(&self) -> bool {
        self.is_unknown() || self.is_asynchronous()
    }

    /// Whether that is not known yet.
    #[inline]
    pub(super) fn is_unknown(&self) -> bool {
        self.pattern() < SYNCHRONOUS_AFTER
    }

    /// Whether a span that is entered for the first time begins a flow: it will be joined to what
    /// comes later, unless it is entered once as all others were.
    #[inline]
    pub(super) fn begins_flows(&self) -> bool {
        self.pattern() != SYNCHRONOUS_AFTER
    }

    /// A span was entered more than once.
    pub(super) fn note_asynchronous(&self) {
        self.set_pattern(ASYNCHRONOUS);
    }

    /// Another span follows from one of these.
    pub(super) fn note_followed(&self) {
        if !self.is_asynchronous() {
            self.set_pattern(FOLLOWED);
        }
    }

    /// A span was entered once in its life.
    #[inline]
    pub(super) fn note_synchronous(&self) {
        let pattern = self.pattern();
        if pattern < SYNCHRONOUS_AFTER {
            self.set_pattern(pattern + 1);
        }
    }

    #[inline]
    fn pattern(&self) -> u32 {
        // Relaxed, as are the stores: a guess, ordered with nothing.
        self.pattern.load(Ordering::Relaxed)
    }

    fn set_pattern(&self, pattern: u32) {
        self.pattern.store(pattern, Ordering::Relaxed);
    }
}

/// Tags by which sessions choose events of a level.
fn level_tags(level: Level) -> &'static [&'static str] {
    match level {
        Level::TRACE => &["TRACE"],
        Level::DEBUG => &["DEBUG"],
        Level::INFO => &["INFO"],
        Level::WARN => &["WARN"],
        Level::ERROR => &["ERROR"],
    }
}
