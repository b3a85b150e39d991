//! Tracks of counters.

use std::borrow::Cow;

use crate::identity::{self, Kind};
use crate::quantity::{Quantity, Unit};
use crate::track::{Subject, Track};

/// The track of a counter, which [`counter!`](crate::counter) takes in place of a name.
///
/// ```
/// use std::sync::LazyLock;
///
/// use tracezero::{CounterTrack, Unit, counter};
///
/// static HEAP: LazyLock<CounterTrack> =
///     LazyLock::new(|| CounterTrack::new("heap").unit(Unit::Bytes));
///
/// # let session = tracezero::InMemorySession::start()?;
/// counter!("memory", &HEAP, 3_500_000);
/// # assert_eq!(session.finish().1.events, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CounterTrack(Track);

impl CounterTrack {
    /// The counter of this name under the process.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self::under(&Track::process(), name)
    }

    /// The counter of this name under a track.
    #[must_use]
    pub fn under(parent: &Track, name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let uuid = identity::derived(parent.uuid(), Kind::CounterTrack, identity::hash(&name));
        let parent = Some(parent.clone());
        Self(Track::with_subject(
            uuid,
            parent,
            name,
            Subject::Counter(Quantity::default()),
        ))
    }

    /// Chooses what is counted.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        if let Some(quantity) = self.0.quantity_mut() {
            quantity.unit = unit;
        }
        self
    }

    /// Chooses how many units one is: 1024 for values in KiB with [`Unit::Bytes`].
    #[must_use]
    pub fn multiplier(mut self, multiplier: i64) -> Self {
        if let Some(quantity) = self.0.quantity_mut() {
            quantity.multiplier = multiplier;
        }
        self
    }

    /// See [`Track::rank`].
    #[must_use]
    pub fn rank(self, rank: i32) -> Self {
        Self(self.0.rank(rank))
    }

    /// See [`Track::description`].
    #[must_use]
    pub fn description(self, text: impl Into<Cow<'static, str>>) -> Self {
        Self(self.0.description(text))
    }

    /// It as a track.
    #[must_use]
    pub const fn track(&self) -> &Track {
        &self.0
    }
}
