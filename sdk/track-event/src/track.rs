//! Where events are drawn: the timelines of a trace.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use crate::identity::{self, Kind};
use crate::process_track::{current_tid, describe_process, describe_thread, thread_uuid};
use crate::quantity::Quantity;
use tracezero_core::protos::TrackDescriptor;
use tracezero_core::protos::counter_descriptor::BuiltinCounterType;
use tracezero_core::protos::track_descriptor::{ChildTracksOrdering, SiblingMergeBehavior};
use tracezero_core::reentry;

/// A timeline of its own for events, which macros take as `track: &track`.
///
/// Events are drawn on the track of their thread unless they name another one: of something that
/// is no thread (a GPU queue, a connection), or of an operation that wanders from thread to thread.
/// Slices on one track nest: if a guard is dropped while another one on the track is open that came later,
/// that one's slice goes on in a further piece. What overlaps needs [`Track::unique`] tracks. The slices of a
/// thread's own track and those that are put there by `track: &Track::current_thread()` do not know of each
/// other and must nest.
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
/// The same name under the same parent is the same track, wherever in the process it is asked for.
/// It is described in a trace as it was when a thread first used it in a session. Tracks nest at most
/// 64 deep; what would be deeper lies beside its parent.
#[derive(Clone, Debug)]
pub struct Track(Arc<TrackData>);

/// Tracks above the lowest ones. Describing a track goes up by recursion.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug)]
struct TrackData {
    uuid: u64,
    parent: Option<Track>,
    /// Tracks above it, at most [`DEPTH_MAX`].
    depth: usize,
    name: Cow<'static, str>,
    subject: Subject,
    description: Cow<'static, str>,
    child_order: ChildOrder,
    rank: Option<i32>,
    merge: Merge,
}

/// What a track is the timeline of.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Process,
    Thread {
        tid: i32,
    },
    Custom,
    Counter(Quantity),
    /// Of its parent, a thread: the processor time that it has used.
    ThreadTime {
        unit_ns: u64,
    },
}

/// How the tracks under a track are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildOrder {
    /// As the viewer likes.
    #[default]
    Any,
    /// By name.
    Lexicographic,
    /// By their first event.
    Chronological,
    /// By their [`Track::rank`].
    Explicit,
}

/// Which siblings a viewer may draw as one.
#[derive(Clone, Debug)]
enum Merge {
    Default,
    Never,
    ByKey(Cow<'static, str>),
}

static PROCESS_TRACK: LazyLock<Track> =
    LazyLock::new(|| Track::with_subject(identity::process(), None, "".into(), Subject::Process));

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

    /// The track of this process, under which its threads are.
    #[must_use]
    pub fn process() -> Self {
        // Making it allocates: an allocator that traces would come back to it.
        let _inside = reentry::Inside::enter();
        PROCESS_TRACK.clone()
    }

    /// The track of the calling thread, for events of other threads about this one.
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

    /// The track of this name under the process.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self::process().child(name)
    }

    /// The track of this name that belongs to no process; in a trace of several processes, the
    /// same one for all.
    #[must_use]
    pub fn global(name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let uuid = identity::derived(0, Kind::NamedTrack, identity::hash(&name));
        Self::with_subject(uuid, None, name, Subject::Custom)
    }

    /// A track that no one else has, under the process: for one of several operations that go on
    /// at the same time. Viewers draw those of one name together, in as many rows as it takes.
    #[must_use]
    pub fn unique(name: impl Into<Cow<'static, str>>) -> Self {
        Self::process().unique_child(name)
    }

    /// The track of this name under this one.
    #[must_use]
    pub fn child(&self, name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let number = identity::hash(&name);
        self.derived(Kind::NamedTrack, number, name)
    }

    /// The track of this name and number under this one, for one of several things of a name.
    #[must_use]
    pub fn numbered_child(&self, name: impl Into<Cow<'static, str>>, number: u64) -> Self {
        let name = name.into();
        let of_name = identity::derived(self.uuid(), Kind::NamedTrack, identity::hash(&name));
        let uuid = identity::derived(of_name, Kind::NumberedTrack, number);
        Self::with_subject(uuid, Some(self.clone()), name, Subject::Custom)
    }

    /// A track that no one else has, under this one: see [`Track::unique`].
    #[must_use]
    pub fn unique_child(&self, name: impl Into<Cow<'static, str>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only that each number is given once counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.derived(Kind::NewTrack, number, name.into())
    }

    /// The counter of the processor time that this thread has used, in units. Its values are
    /// differences.
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

    /// Chooses how the tracks under this one are sorted.
    #[must_use]
    pub fn children(mut self, order: ChildOrder) -> Self {
        self.data_mut().child_order = order;
        self
    }

    /// The place among its siblings if their parent sorts by [`ChildOrder::Explicit`]: lower ones
    /// come first.
    #[must_use]
    pub fn rank(mut self, rank: i32) -> Self {
        self.data_mut().rank = Some(rank);
        self
    }

    /// A text that viewers show with the track.
    #[must_use]
    pub fn description(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.data_mut().description = text.into();
        self
    }

    /// Draws the track by itself, whatever its siblings are called.
    #[must_use]
    pub fn never_merged(mut self) -> Self {
        self.data_mut().merge = Merge::Never;
        self
    }

    /// Draws the track together with its siblings of the same key.
    #[must_use]
    pub fn merged_by(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        self.data_mut().merge = Merge::ByKey(key.into());
        self
    }

    fn data_mut(&mut self) -> &mut TrackData {
        Arc::make_mut(&mut self.0)
    }

    /// What a counter counts.
    pub(super) fn quantity_mut(&mut self) -> Option<&mut Quantity> {
        match &mut self.data_mut().subject {
            Subject::Counter(quantity) => Some(quantity),
            _ => None,
        }
    }

    /// Its id in the trace.
    #[must_use]
    pub fn uuid(&self) -> u64 {
        self.0.uuid
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// The track that this one lies under.
    #[must_use]
    pub fn parent(&self) -> Option<&Self> {
        self.0.parent.as_ref()
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
    fn tracks_that_would_nest_too_deep_lie_beside_their_parents() {
        let mut track = Track::new("root");
        for _ in 0..100_000 {
            track = track.child("deeper");
        }
        assert_eq!(track.0.depth, DEPTH_MAX);
        assert_ne!(track.uuid(), track.child("deeper").uuid());
    }

    #[test]
    fn the_thread_has_the_track_that_its_events_go_to_by_default() {
        assert_eq!(Track::current_thread().uuid(), thread_uuid(current_tid()));
    }
}
