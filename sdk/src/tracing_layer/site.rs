//! Call sites of `tracing`, with the data kept for each: interned names, which sessions record it,
//! and how its spans have behaved so far.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing_core::{Level, Metadata};

use super::growing_table::{BucketIndex, GrowingTable};
use crate::CounterTrack;
use tracezero_track_event::{CallSite, Origin, Placement};

/// The prefix of names of fields that are counters.
const COUNTER_PREFIX: &str = "counter.";
/// The name of fields that are the header of W3C Trace Context.
const TRACEPARENT: &str = "traceparent";
/// The name that `tracing-opentelemetry` gives to the field with the kind of a span.
const SPAN_KIND: &str = "otel.kind";
/// The prefix of the names that `tracing` itself gives to events; the source location follows.
const DEFAULT_EVENT_NAME_PREFIX: &str = "event ";
/// The name and the target that the crate `tracing-log` gives to the callsites of all records.
const LOG_NAME: &str = "log event";
const LOG_TARGET: &str = "log";

/// A call site: one for each callsite of `tracing`, and one for each source location of `log`
/// records.
#[derive(Debug)]
pub(super) struct Site {
    /// The address of the metadata, which is static; 0 for `log` records.
    address: usize,
    /// The index in the table; `SiteIndex::NONE` for `log` records.
    pub(super) index: SiteIndex,
    pub(super) call_site: CallSite,
    /// The call site for dynamic names.
    unnamed: CallSite,
    pub(super) fields: Box<[FieldKind]>,
    /// The position of the level among the arguments, and the level; `None` for spans, whose level
    /// is not recorded.
    pub(super) level: Option<(usize, &'static str)>,
    pub(super) is_log: bool,
    /// The call site named after the message of the first event. Most call sites always have the
    /// same message.
    first_message: OnceLock<CallSite>,
    /// A [`Pattern`] as a number, which only grows.
    pattern: AtomicU8,
}

/// How the spans of a call site have behaved so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// Each span was entered at most once.
    Unknown,
    /// Another span followed from a span of this call site.
    Followed,
    /// A span of this call site was entered more than once.
    Asynchronous,
}

/// The way in which a field is recorded.
#[derive(Debug)]
pub(super) enum FieldKind {
    Argument,
    /// The field becomes the name of the event.
    Message,
    Counter(CounterTrack),
    /// The name of the field says more: see [`RareField`].
    Rare,
}

/// A field that few call sites have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RareField {
    /// The field is part of the source location of a `log` record.
    LogOrigin,
    /// The field is an argument, and the header by which a request comes or goes.
    Traceparent,
    /// The field is an argument, and says whether the span is a call to another service.
    SpanKind,
}

impl RareField {
    fn of(name: &str, is_event: bool, is_log: bool) -> Option<Self> {
        match name {
            _ if is_log && name.starts_with("log.") => Some(Self::LogOrigin),
            TRACEPARENT => Some(Self::Traceparent),
            SPAN_KIND if !is_event => Some(Self::SpanKind),
            _ => None,
        }
    }
}

/// The index of a call site in the table, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SiteIndex(pub(super) u32);

/// The call sites of a bucket.
type Bucket = [OnceLock<Site>; BUCKET_SITES];

const BUCKET_SITES: usize = 4;

static SITES: GrowingTable<Bucket> = GrowingTable::new();

/// Returns the call site of this metadata, or `None` if the table is full.
#[inline]
pub(super) fn site_of(metadata: &'static Metadata<'static>) -> Option<&'static Site> {
    let address = std::ptr::from_ref(metadata).addr();
    // The lowest bits of all addresses are equal.
    let known = SITES.buckets(address as u64 >> 3).find_map(|(_, bucket)| {
        let mut sites = bucket.iter().map_while(OnceLock::get);
        sites.find(|site| site.address == address)
    });
    known.or_else(|| add_site(metadata, address))
}

#[cold]
fn add_site(metadata: &'static Metadata<'static>, address: usize) -> Option<&'static Site> {
    // Threads that add the same call site at once try the same buckets in the same order, so they
    // share one entry.
    SITES
        .all_buckets(address as u64 >> 3)
        .find_map(|(bucket_index, bucket)| {
            let mut sites = bucket.iter().enumerate().map(|(at, place)| {
                place.get_or_init(|| Site::new(metadata, address, SiteIndex::new(bucket_index, at)))
            });
            sites.find(|site| site.address == address)
        })
}

/// Returns the call site with this index.
#[inline]
pub(super) fn site_at(index: SiteIndex) -> Option<&'static Site> {
    let (bucket, at) = index.parts();
    SITES.at(bucket)?.get(at)?.get()
}

impl SiteIndex {
    /// The index of a call site that is not in the table.
    const NONE: Self = Self(u32::MAX);

    fn new(bucket: BucketIndex, at: usize) -> Self {
        Self(bucket.to_bits() * BUCKET_SITES as u32 + at as u32)
    }

    #[inline]
    fn parts(self) -> (BucketIndex, usize) {
        let bucket = BucketIndex::from_bits(self.0 / BUCKET_SITES as u32);
        (bucket, self.0 as usize % BUCKET_SITES)
    }
}

impl Site {
    fn new(metadata: &'static Metadata<'static>, address: usize, index: SiteIndex) -> Self {
        let is_event = metadata.is_event();
        let is_log = is_event && metadata.name() == LOG_NAME && metadata.target() == LOG_TARGET;
        let has_own_name = !metadata.name().starts_with(DEFAULT_EVENT_NAME_PREFIX) && !is_log;
        let kind = |name: &str| match name.strip_prefix(COUNTER_PREFIX) {
            Some(counter) if is_event => FieldKind::Counter(CounterTrack::new(counter.to_owned())),
            _ if is_event && name == "message" && !has_own_name => FieldKind::Message,
            _ if RareField::of(name, is_event, is_log).is_some() => FieldKind::Rare,
            _ => FieldKind::Argument,
        };
        let names: Vec<_> = metadata.fields().iter().map(|field| field.name()).collect();
        let fields: Box<[FieldKind]> = names.iter().map(|name| kind(name)).collect();
        // A nameless event is named after its first field instead of the default name, which only
        // repeats the source location. For example, `instrument` makes events with the field
        // `error`.
        let is_nameless = is_event && !is_log && !has_own_name && !names.contains(&"message");
        let first_argument = || {
            // Of the rare fields, an event that is not of `log` has only headers, which are arguments, too.
            let is_argument =
                |kind: &FieldKind| matches!(kind, FieldKind::Argument | FieldKind::Rare);
            names.get(fields.iter().position(is_argument)?).copied()
        };
        let name = is_nameless.then(first_argument).flatten();
        let name = name.unwrap_or(metadata.name());
        let origin = Origin {
            file: metadata.file().unwrap_or(""),
            line: metadata.line().unwrap_or(0),
            is_name_dynamic: false,
            tags: level_tags(*metadata.level()),
        };
        Self {
            address,
            index,
            is_log,
            fields,
            ..Self::with_names(
                metadata.target(),
                name,
                names,
                origin,
                is_event.then_some(*metadata.level()),
            )
        }
    }

    /// Creates the call site for `log` records of a level at a source location.
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
        // The leak is bounded: there is one for each source location in the program.
        let (names, origin) = (names.leak(), Box::leak(Box::new(origin)));
        let call_site = CallSite::new(target, name, names).at(origin);
        Self {
            address: 0,
            index: SiteIndex::NONE,
            unnamed: call_site.renamed(""),
            call_site,
            fields: Box::new([]),
            level,
            is_log: false,
            first_message: OnceLock::new(),
            pattern: AtomicU8::new(Pattern::Unknown as u8),
        }
    }

    /// Returns the call site and the placement of an event with this name. If the name is empty,
    /// the event has the call site's own name.
    #[inline]
    pub(super) fn named<'a>(&'static self, name: &'a str) -> (&'static CallSite, Placement<'a>) {
        if name.is_empty() {
            (&self.call_site, Placement::new())
        } else {
            (&self.unnamed, Placement::new().named(name))
        }
    }

    /// Returns the call site that has `message` as its name, if that was the message of the first
    /// event.
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

    /// Returns what a field of the kind [`FieldKind::Rare`] is.
    pub(super) fn rare_field(&self, name: &str) -> Option<RareField> {
        RareField::of(name, self.level.is_some(), self.is_log)
    }

    /// Returns how the spans have behaved so far.
    #[inline]
    pub(super) fn pattern(&self) -> Pattern {
        // Relaxed, as in `note`: the pattern is a guess, and orders nothing.
        match self.pattern.load(Ordering::Relaxed) {
            0 => Pattern::Unknown,
            1 => Pattern::Followed,
            _ => Pattern::Asynchronous,
        }
    }

    /// Notes how a span has behaved.
    #[inline]
    pub(super) fn note(&self, pattern: Pattern) {
        if self.pattern() < pattern {
            self.pattern.fetch_max(pattern as u8, Ordering::Relaxed);
        }
    }
}

/// Returns the tags by which sessions select events of a level.
fn level_tags(level: Level) -> &'static [&'static str] {
    match level {
        Level::TRACE => &["TRACE"],
        Level::DEBUG => &["DEBUG"],
        Level::INFO => &["INFO"],
        Level::WARN => &["WARN"],
        Level::ERROR => &["ERROR"],
    }
}
