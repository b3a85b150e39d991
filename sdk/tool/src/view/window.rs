//! The part of a trace that is shown: `--from` and `--to`.

use tracezero_reader::NameId;

use super::timeline::TrackIndex;

/// Slices that are open on one track before the part begins; deeper ones are left out.
const OPEN_MAX: usize = 512;
/// Slices that are open on all tracks together; further ones are left out.
const OPEN_ON_ALL_MAX: usize = 1 << 20;

/// A part of a trace. A slice belongs to it if a moment of it does, other events if their time does.
#[derive(Debug)]
pub(crate) struct Window {
    from_ns: u64,
    to_ns: u64,
    /// Of each track that had events before the part.
    open: Vec<OpenSlices>,
    /// Slices that are open on all tracks.
    open_on_all: usize,
}

/// The slices of a track that are open where the part begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenSlices {
    /// Outermost first.
    pub(crate) slices: Vec<OpenSlice>,
    /// How many there are inside of these.
    pub(crate) left_out: u64,
}

/// A slice that began before the part. Its arguments and flows are not kept, and of its categories the
/// first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenSlice {
    pub(crate) time_ns: u64,
    pub(crate) name: NameId,
    pub(crate) category: NameId,
}

/// Where a time lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Before,
    Inside,
    After,
}

impl Window {
    /// Times are those of the trace; `to_ns` is not part of it.
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

    /// Where a slice is whose end is known.
    pub(crate) const fn place_of_slice(&self, begin_ns: u64, end_ns: u64) -> Place {
        match (self.place(begin_ns), self.place(end_ns)) {
            (Place::Before, Place::Before) => Place::Before,
            (Place::Before, _) => Place::Inside,
            (begin, _) => begin,
        }
    }

    /// A slice begins before the part.
    pub(crate) fn open(&mut self, track: TrackIndex, slice: OpenSlice) {
        let index = track.0 as usize;
        if self.open.len() <= index {
            self.open.resize_with(index + 1, OpenSlices::default);
        }
        let open = &mut self.open[index];
        let has_room = open.slices.len() < OPEN_MAX && self.open_on_all < OPEN_ON_ALL_MAX;
        // Ends are those of the slices that began last.
        if has_room && open.left_out == 0 {
            self.open_on_all += 1;
            open.slices.push(slice);
        } else {
            open.left_out += 1;
        }
    }

    /// One ends before the part.
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

    /// Those that reach into the part; asked for once per track.
    pub(crate) fn take_open(&mut self, track: TrackIndex) -> OpenSlices {
        let open = self.open.get_mut(track.0 as usize);
        let open = open.map(std::mem::take).unwrap_or_default();
        self.open_on_all -= open.slices.len();
        open
    }

    /// Tracks that still have open slices when the trace ends.
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
    fn slices_that_reach_into_the_part_are_handed_out_once() {
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
    fn the_end_is_not_part_of_it() {
        let window = Window::new(10, 20);
        let places = [9, 10, 19, 20].map(|time_ns| window.place(time_ns));
        assert_eq!(
            places,
            [Place::Before, Place::Inside, Place::Inside, Place::After]
        );
    }

    #[test]
    fn a_slice_with_a_known_end_is_inside_if_a_moment_of_it_is() {
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
