//! The part of a trace that is shown: `--from` and `--to`.

use super::timeline::{LabelId, TrackIndex};

/// Slices that are open on one track before the part begins; deeper ones are forgotten.
const OPEN_MAX: usize = 512;

/// A part of a trace. A slice belongs to it if a moment of it does, other events if their time does.
#[derive(Debug)]
pub(crate) struct Window {
    from_ns: u64,
    to_ns: u64,
    /// Slices that are open where the part begins, of each track that had events before it. Their
    /// arguments and flows are not kept.
    open: Vec<Vec<OpenSlice>>,
}

/// A slice that began before the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenSlice {
    pub(crate) time_ns: u64,
    pub(crate) label: LabelId,
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

    /// A slice begins before the part.
    pub(crate) fn open(&mut self, track: TrackIndex, slice: OpenSlice) {
        let index = track.0 as usize;
        if self.open.len() <= index {
            self.open.resize_with(index + 1, Vec::new);
        }
        if self.open[index].len() < OPEN_MAX {
            self.open[index].push(slice);
        }
    }

    /// One ends before the part.
    pub(crate) fn close(&mut self, track: TrackIndex) {
        if let Some(open) = self.open.get_mut(track.0 as usize) {
            open.pop();
        }
    }

    /// Those that reach into the part, outermost first; asked for once per track.
    pub(crate) fn take_open(&mut self, track: TrackIndex) -> Vec<OpenSlice> {
        let open = self.open.get_mut(track.0 as usize);
        open.map(std::mem::take).unwrap_or_default()
    }

    /// Tracks that still have open slices when the trace ends.
    pub(crate) fn tracks_with_open(&self) -> impl Iterator<Item = TrackIndex> + use<> {
        let open = self.open.iter().enumerate();
        let tracks = open.filter(|(_, slices)| !slices.is_empty());
        let tracks: Vec<_> = tracks
            .map(|(index, _)| TrackIndex(u32::try_from(index).unwrap_or(u32::MAX)))
            .collect();
        tracks.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_that_reach_into_the_part_are_handed_out_once() {
        let mut window = Window::new(10, 20);
        let track = TrackIndex(2);
        let slice = |time_ns| OpenSlice {
            time_ns,
            label: LabelId(0),
        };
        for time_ns in [1, 2, 3] {
            window.open(track, slice(time_ns));
        }
        window.close(track);
        assert_eq!(window.tracks_with_open().collect::<Vec<_>>(), [track]);
        assert_eq!(window.take_open(track), [slice(1), slice(2)]);
        assert_eq!(window.take_open(track), []);
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
    fn open_slices_are_bounded() {
        let mut window = Window::new(10, 20);
        for time_ns in 0..OPEN_MAX as u64 + 9 {
            let label = LabelId(0);
            window.open(TrackIndex(0), OpenSlice { time_ns, label });
        }
        assert_eq!(window.take_open(TrackIndex(0)).len(), OPEN_MAX);
    }
}
