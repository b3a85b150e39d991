//! The part of a trace that is shown: `--from` and `--to`.

use std::ops::Range;

use tracezero_reader::NameId;

use super::timeline::TrackIndex;

/// The maximum number of slices that are open on one track at the begin of the window. Deeper ones
/// are left out.
const OPEN_MAX: usize = 512;
/// The maximum number of open slices on all tracks together. Further ones are left out.
const OPEN_ON_ALL_MAX: usize = 1 << 20;

/// A part of a trace. A slice is in it if any moment of the slice is; other events are in it if
/// their time is.
#[derive(Debug)]
pub(crate) struct Window {
    from_ns: u64,
    to_ns: u64,
    /// The open slices of each track that had events before the window.
    open: Vec<OpenSlices>,
    /// The number of open slices on all tracks.
    open_on_all: usize,
}

/// The slices of a track that are open at the begin of the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenSlices {
    /// Outermost first.
    pub(crate) slices: Vec<OpenSlice>,
    /// The number of slices inside these that were left out.
    pub(crate) left_out: u64,
}

/// A slice that began before the window. Its arguments and flows are not stored, and only its first
/// category is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenSlice {
    pub(crate) time_ns: u64,
    pub(crate) name: NameId,
    pub(crate) category: NameId,
}

/// The position of a time relative to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Before,
    Inside,
    After,
}

impl Window {
    /// Creates a window of times of the trace. `to_ns` is not in it.
    pub(crate) const fn new(from_ns: u64, to_ns: u64) -> Self {
        Self {
            from_ns,
            to_ns,
            open: Vec::new(),
            open_on_all: 0,
        }
    }

    pub(crate) const fn place(&self, time_ns: u64) -> Place {
        if time_ns < self.from_ns {
            Place::Before
        } else if time_ns < self.to_ns {
            Place::Inside
        } else {
            Place::After
        }
    }

    /// Returns the part of a time that is in the window.
    pub(crate) fn clip(&self, range: &Range<u64>) -> Range<u64> {
        let begin_ns = range.start.max(self.from_ns);
        begin_ns..range.end.min(self.to_ns).max(begin_ns)
    }

    /// Returns the position of a slice whose end is known.
    pub(crate) const fn place_of_slice(&self, begin_ns: u64, end_ns: u64) -> Place {
        match (self.place(begin_ns), self.place(end_ns)) {
            (Place::Before, Place::Before) => Place::Before,
            (Place::Before, _) => Place::Inside,
            (begin, _) => begin,
        }
    }

    /// Notes a slice that begins before the window.
    pub(crate) fn open(&mut self, track: TrackIndex, slice: OpenSlice) {
        let index = track.0 as usize;
        if self.open.len() <= index {
            self.open.resize_with(index + 1, OpenSlices::default);
        }
        let open = &mut self.open[index];
        let has_room = open.slices.len() < OPEN_MAX && self.open_on_all < OPEN_ON_ALL_MAX;
        // While slices are left out, further ones are too, because an end belongs to the slice that
        // began last.
        if has_room && open.left_out == 0 {
            self.open_on_all += 1;
            open.slices.push(slice);
        } else {
            open.left_out += 1;
        }
    }

    /// Notes the end of a slice before the window.
    pub(crate) fn close(&mut self, track: TrackIndex) {
        let Some(open) = self.open.get_mut(track.0 as usize) else {
            return;
        };
        if open.left_out > 0 {
            open.left_out -= 1;
        } else if open.slices.pop().is_some() {
            self.open_on_all -= 1;
        }
    }

    /// Takes the slices that reach into the window. Called once per track.
    pub(crate) fn take_open(&mut self, track: TrackIndex) -> OpenSlices {
        let open = self.open.get_mut(track.0 as usize);
        let open = open.map(std::mem::take).unwrap_or_default();
        self.open_on_all -= open.slices.len();
        open
    }

    /// Returns the tracks that still have open slices at the end of the trace.
    pub(crate) fn tracks_with_open(&self) -> impl Iterator<Item = TrackIndex> + use<> {
        let open = self.open.iter().enumerate();
        let tracks = open.filter(|(_, open)| !open.slices.is_empty());
        let tracks: Vec<_> = tracks
            .map(|(index, _)| TrackIndex(u32::try_from(index).unwrap_or(u32::MAX)))
            .collect();
        tracks.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn slice(time_ns: u64) -> OpenSlice {
        OpenSlice {
            time_ns,
            name: NameId::NONE,
            category: NameId::NONE,
        }
    }

    #[test]
    fn slices_that_reach_into_the_window_are_taken_once() {
        let mut window = Window::new(10, 20);
        let track = TrackIndex(2);
        for time_ns in [1, 2, 3] {
            window.open(track, slice(time_ns));
        }
        window.close(track);
        assert_eq!(window.tracks_with_open().collect::<Vec<_>>(), [track]);
        assert_eq!(window.take_open(track).slices, [slice(1), slice(2)]);
        assert_eq!(window.take_open(track), OpenSlices::default());
        window.close(track);
        window.close(TrackIndex(9));
    }

    #[test]
    fn end_time_is_not_in_the_window() {
        let window = Window::new(10, 20);
        let places = [9, 10, 19, 20].map(|time_ns| window.place(time_ns));
        assert_eq!(
            places,
            [Place::Before, Place::Inside, Place::Inside, Place::After]
        );
    }

    #[test]
    fn times_are_clipped_to_the_window() {
        let window = Window::new(10, 20);
        for (range, inside) in [(5..15, 10..15), (12..30, 12..20), (0..99, 10..20)] {
            assert_eq!(window.clip(&range), inside);
        }
        assert!(window.clip(&(0..5)).is_empty() && window.clip(&(30..40)).is_empty());
    }

    #[test]
    fn slice_is_inside_if_any_moment_of_it_is() {
        let window = Window::new(10, 20);
        for (begin_ns, end_ns, place) in [
            (5, 9, Place::Before),
            (5, 10, Place::Inside),
            (5, 30, Place::Inside),
            (19, 30, Place::Inside),
            (20, 30, Place::After),
        ] {
            assert_eq!(window.place_of_slice(begin_ns, end_ns), place);
        }
    }

    #[test]
    fn open_slices_are_bounded_and_the_deepest_are_left_out() {
        let mut window = Window::new(10, 20);
        let track = TrackIndex(0);
        for time_ns in 0..OPEN_MAX as u64 + 9 {
            window.open(track, slice(time_ns));
        }
        for _ in 0..7 {
            window.close(track);
        }
        let open = window.take_open(track);
        assert_eq!((open.slices.len(), open.left_out), (OPEN_MAX, 2));
        assert_eq!(open.slices.last(), Some(&slice(OPEN_MAX as u64 - 1)));
    }
}
