//! Tracks of counters.

use std::borrow::Cow;

use crate::identity::{self, Kind};
use crate::quantity::{Quantity, Unit};
use crate::track::{Subject, Track};

/// A track that shows the values of a counter. [`counter!`](crate::counter) takes it in place of a
/// name.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterTrack(Track);

impl CounterTrack {
    /// Returns the process's counter with this name.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self::under(&Track::process(), name)
    }

    /// Returns the counter with this name under `parent`. Equal parents and names mean the same
    /// counter.
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

    /// Sets the unit of the values.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        if let Some(quantity) = self.0.quantity_mut() {
            quantity.unit = unit;
        }
        self
    }

    /// Sets the factor from values to units, such as 1024 with [`Unit::Bytes`] for values in KiB.
    #[must_use]
    pub fn multiplier(mut self, multiplier: i64) -> Self {
        if let Some(quantity) = self.0.quantity_mut() {
            quantity.multiplier = multiplier;
        }
        self
    }

    /// Sets where the track is drawn among its siblings; see [`Track::rank`].
    #[must_use]
    pub fn rank(self, rank: i32) -> Self {
        Self(self.0.rank(rank))
    }

    /// Sets a description; see [`Track::description`].
    #[must_use]
    pub fn description(self, text: impl Into<Cow<'static, str>>) -> Self {
        Self(self.0.description(text))
    }

    /// Returns the underlying [`Track`].
    #[must_use]
    pub const fn track(&self) -> &Track {
        &self.0
    }
}
