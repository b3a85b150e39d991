//! Tracks: the timelines of a trace, on which events are drawn.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use crate::identity::{self, Kind};
use crate::process_track::{current_tid, describe_process, describe_thread, thread_uuid};
use crate::quantity::Quantity;
use tracezero_core::protos::TrackDescriptor;
use tracezero_core::protos::counter_descriptor::BuiltinCounterType;
use tracezero_core::protos::track_descriptor::{ChildTracksOrdering, SiblingMergeBehavior};
use tracezero_core::reentry;

/// A timeline for events; pass it to a macro as `track: &track`.
///
/// By default, events are drawn on the track of their thread. Use another track for something that
/// is not a thread (a GPU queue, a connection), or for an operation that moves from thread to
/// thread.
///
/// Slices on one track nest. If a guard is dropped while a later slice on the track is still open,
/// the later slice is cut and goes on as a second slice. For operations that overlap, use
/// [`Track::unique`] tracks. Slices on a thread's own track and slices with `track:
/// &Track::current_thread()` are not adjusted to each other; the application must nest them.
///
/// ```
/// use tracezero::{Track, instant, span};
///
/// # let session = tracezero::InMemorySession::start()?;
/// let gpu = Track::new("GPU").children(tracezero::ChildOrder::Explicit);
/// let copy_queue = gpu.child("copy queue").rank(2);
/// instant!("render", "submitted", bytes = 4096, track: &copy_queue);
///
/// // Its guard may be dropped by another thread.
/// let request = span!("http", "request", url = "/index.html", track: &Track::unique("request"));
/// std::thread::spawn(move || drop(request)).join().expect("no panic");
/// # assert_eq!(session.finish().1.events, 3);
/// # Ok::<(), tracezero::Error>(())
/// ```
///
/// The same name under the same parent means the same track in the whole process. A session shows
/// the properties that the track had when a thread first used it in this session. Tracks nest at
/// most 64 deep; a deeper track becomes a sibling of its parent.
#[derive(Clone, Debug)]
pub struct Track(Arc<TrackData>);

/// The maximum number of ancestors of a track. Limited, because describing a track recurses
/// upwards.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug)]
struct TrackData {
    uuid: u64,
    parent: Option<Track>,
    /// The number of ancestors, at most [`DEPTH_MAX`].
    depth: usize,
    name: Cow<'static, str>,
    subject: Subject,
    description: Cow<'static, str>,
    child_order: ChildOrder,
    rank: Option<i32>,
    merge: Merge,
}

/// The thing whose timeline a track is.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Process,
    Thread {
        tid: i32,
    },
    Custom,
    Counter(Quantity),
    /// The processor time that the parent, a thread, has used.
    ThreadTime {
        unit_ns: u64,
    },
}

/// The order of the tracks under a track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChildOrder {
    /// The viewer decides.
    #[default]
    Any,
    /// By name.
    Lexicographic,
    /// By their first event.
    Chronological,
    /// By their [`Track::rank`].
    Explicit,
}

/// A choice of the siblings that a viewer may draw as one track.
#[derive(Clone, Debug)]
enum Merge {
    Default,
    Never,
    ByKey(Cow<'static, str>),
}

static PROCESS_TRACK: LazyLock<Track> =
    LazyLock::new(|| Track::with_subject(identity::process(), None, "".into(), Subject::Process));

impl PartialEq for Track {
    /// Compares the uuids: readers merge tracks with the same uuid.
    fn eq(&self, other: &Self) -> bool {
        self.0.uuid == other.0.uuid
    }
}

impl Eq for Track {}

impl Hash for Track {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.uuid.hash(state);
    }
}

impl Track {
    pub(super) fn with_subject(
        uuid: u64,
        parent: Option<Self>,
        name: Cow<'static, str>,
        subject: Subject,
    ) -> Self {
        let parent = parent.and_then(|parent| {
            if parent.0.depth < DEPTH_MAX {
                Some(parent)
            } else {
                parent.0.parent.clone()
            }
        });
        Self(Arc::new(TrackData {
            depth: parent.as_ref().map_or(0, |parent| parent.0.depth + 1),
            uuid,
            parent,
            name,
            subject,
            description: Cow::Borrowed(""),
            child_order: ChildOrder::Any,
            rank: None,
            merge: Merge::Default,
        }))
    }

    /// Returns the track of this process, the parent of its threads' tracks.
    #[must_use]
    pub fn process() -> Self {
        // Creating it allocates. The guard keeps an allocator that traces from coming back here.
        let _inside = reentry::TracerGuard::enter();
        PROCESS_TRACK.clone()
    }

    /// Returns the track of the calling thread, so that other threads can put events on it.
    #[must_use]
    pub fn current_thread() -> Self {
        let tid = current_tid();
        let name = std::thread::current().name().unwrap_or("").to_owned();
        let parent = Some(Self::process());
        Self::with_subject(
            thread_uuid(tid),
            parent,
            name.into(),
            Subject::Thread { tid },
        )
    }

    /// Returns the track with this name under the process.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self::process().child(name)
    }

    /// Returns the track with this name that belongs to no process. In a trace of several processes
    /// it is one track for all.
    #[must_use]
    pub fn global(name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let uuid = identity::derived(0, Kind::NamedTrack, identity::hash(&name));
        Self::with_subject(uuid, None, name, Subject::Custom)
    }

    /// Creates a new track under the process, different from all others, for one of several
    /// operations that overlap. Viewers draw unique tracks with the same name together, in as many
    /// rows as needed.
    #[must_use]
    pub fn unique(name: impl Into<Cow<'static, str>>) -> Self {
        Self::process().unique_child(name)
    }

    /// Returns the track with this name under this track.
    #[must_use]
    pub fn child(&self, name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let number = identity::hash(&name);
        self.derived(Kind::NamedTrack, number, name)
    }

    /// Returns the track with this name and number under this track, for one of several things with
    /// the same name.
    #[must_use]
    pub fn numbered_child(&self, name: impl Into<Cow<'static, str>>, number: u64) -> Self {
        let name = name.into();
        let of_name = identity::derived(self.uuid(), Kind::NamedTrack, identity::hash(&name));
        let uuid = identity::derived(of_name, Kind::NumberedTrack, number);
        Self::with_subject(uuid, Some(self.clone()), name, Subject::Custom)
    }

    /// Creates a new track under this track, different from all others: see [`Track::unique`].
    #[must_use]
    pub fn unique_child(&self, name: impl Into<Cow<'static, str>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: the numbers must only be unique.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.derived(Kind::NewTrack, number, name.into())
    }

    /// Returns the counter of the processor time that this thread has used, in units of `unit_ns`.
    /// Each value is the increase since the previous value.
    pub(super) fn thread_time(&self, unit_ns: u64) -> Self {
        let name = "thread_time";
        let uuid = identity::derived(self.uuid(), Kind::ThreadTime, identity::hash(name));
        let parent = Some(self.clone());
        Self::with_subject(uuid, parent, name.into(), Subject::ThreadTime { unit_ns })
    }

    fn derived(&self, kind: Kind, number: u64, name: Cow<'static, str>) -> Self {
        let uuid = identity::derived(self.uuid(), kind, number);
        Self::with_subject(uuid, Some(self.clone()), name, Subject::Custom)
    }

    /// Sets the order of the tracks under this one.
    #[must_use]
    pub fn children(mut self, order: ChildOrder) -> Self {
        self.data_mut().child_order = order;
        self
    }

    /// Sets the track's place among its siblings, if their parent has [`ChildOrder::Explicit`].
    /// Lower ranks come first.
    #[must_use]
    pub fn rank(mut self, rank: i32) -> Self {
        self.data_mut().rank = Some(rank);
        self
    }

    /// Sets a text that viewers show with the track.
    #[must_use]
    pub fn description(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.data_mut().description = text.into();
        self
    }

    /// Makes viewers draw the track by itself, even if siblings have the same name.
    #[must_use]
    pub fn never_merged(mut self) -> Self {
        self.data_mut().merge = Merge::Never;
        self
    }

    /// Makes viewers draw the track together with its siblings of the same key.
    #[must_use]
    pub fn merged_by(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        self.data_mut().merge = Merge::ByKey(key.into());
        self
    }

    fn data_mut(&mut self) -> &mut TrackData {
        Arc::make_mut(&mut self.0)
    }

    /// Returns the unit and factor of a counter track.
    pub(super) fn quantity_mut(&mut self) -> Option<&mut Quantity> {
        match &mut self.data_mut().subject {
            Subject::Counter(quantity) => Some(quantity),
            _ => None,
        }
    }

    /// Returns the track's id in the trace.
    #[must_use]
    pub fn uuid(&self) -> u64 {
        self.0.uuid
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the parent track.
    #[must_use]
    pub fn parent(&self) -> Option<&Self> {
        self.0.parent.as_ref()
    }

    pub(super) fn is_thread(&self) -> bool {
        matches!(self.0.subject, Subject::Thread { .. })
    }

    pub(super) fn describe(&self, out: &mut TrackDescriptor<'_>) {
        let data = &*self.0;
        out.set_uuid(data.uuid);
        if let Some(parent) = &data.parent {
            out.set_parent_uuid(parent.uuid());
        }
        match &data.subject {
            Subject::Process => describe_process(out),
            Subject::Thread { tid } => describe_thread(*tid, &data.name, out),
            Subject::Custom => self.describe_name(out),
            Subject::Counter(quantity) => {
                self.describe_name(out);
                out.counter(|counter| quantity.describe(counter));
            }
            Subject::ThreadTime { unit_ns } => {
                self.describe_name(out);
                out.counter(|counter| {
                    counter.set_type(BuiltinCounterType::COUNTER_THREAD_TIME_NS);
                    counter.set_unit_multiplier(i64::try_from(*unit_ns).unwrap_or(i64::MAX));
                    counter.set_is_incremental(true);
                });
            }
        }
        if !data.description.is_empty() {
            out.set_description(&data.description);
        }
        match data.child_order {
            ChildOrder::Any => {}
            ChildOrder::Lexicographic => {
                out.set_child_ordering(ChildTracksOrdering::LEXICOGRAPHIC);
            }
            ChildOrder::Chronological => {
                out.set_child_ordering(ChildTracksOrdering::CHRONOLOGICAL);
            }
            ChildOrder::Explicit => {
                out.set_child_ordering(ChildTracksOrdering::EXPLICIT);
            }
        }
        if let Some(rank) = data.rank {
            out.set_sibling_order_rank(rank);
        }
        match &data.merge {
            Merge::Default => {}
            Merge::Never => {
                out.set_sibling_merge_behavior(SiblingMergeBehavior::NONE);
            }
            Merge::ByKey(key) => {
                out.set_sibling_merge_behavior(SiblingMergeBehavior::BY_SIBLING_MERGE_KEY);
                out.set_sibling_merge_key(key);
            }
        }
    }

    fn describe_name(&self, out: &mut TrackDescriptor<'_>) {
        match &self.0.name {
            Cow::Borrowed(name) => out.set_static_name(name),
            Cow::Owned(name) => out.set_name(name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CounterTrack;

    #[test]
    fn the_same_name_under_the_same_parent_is_the_same_track() {
        let gpu = Track::new("GPU");
        assert_eq!(gpu.uuid(), Track::new("GPU").rank(1).uuid());
        assert_eq!(gpu.child("a").uuid(), gpu.child("a").uuid());
        assert_ne!(gpu.child("a").uuid(), gpu.child("b").uuid());
        assert_ne!(gpu.child("a").uuid(), Track::new("a").uuid());
        assert_ne!(Track::global("GPU").uuid(), gpu.uuid());
        assert_eq!(gpu.child("a").parent().map(Track::uuid), Some(gpu.uuid()));
    }

    #[test]
    fn unique_and_numbered_tracks_differ_from_all_others() {
        let parent = Track::new("parent");
        let uuids = [
            Track::unique("a").uuid(),
            Track::unique("a").uuid(),
            parent.child("a").uuid(),
            parent.numbered_child("a", 1).uuid(),
            parent.numbered_child("a", 2).uuid(),
            parent.numbered_child("b", 1).uuid(),
            CounterTrack::under(&parent, "a").track().uuid(),
        ];
        for (index, uuid) in uuids.iter().enumerate() {
            assert!(!uuids[..index].contains(uuid), "{uuids:?}");
        }
        assert_eq!(parent.numbered_child("a", 1).uuid(), uuids[3]);
    }

    #[test]
    fn too_deep_tracks_become_siblings_of_their_parents() {
        let mut track = Track::new("root");
        for _ in 0..100_000 {
            track = track.child("deeper");
        }
        assert_eq!(track.0.depth, DEPTH_MAX);
        assert_ne!(track.uuid(), track.child("deeper").uuid());
    }

    #[test]
    fn current_thread_track_is_the_default_track() {
        assert_eq!(Track::current_thread().uuid(), thread_uuid(current_tid()));
    }
}
