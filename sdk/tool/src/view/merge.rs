//! Merges short pieces of a lane with their neighbours, so that the page of a long trace of a busy
//! machine stays small. A short piece between two long ones stays as it is.

use std::iter::Peekable;

/// The number of classes that pieces may have.
pub(crate) const CLASSES: usize = 16;

/// A time in which a lane was the same. The pieces of a lane are sorted by time and do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<T> {
    pub(crate) begin_ns: u64,
    /// Not before `begin_ns`.
    pub(crate) end_ns: u64,
    /// Below [`CLASSES`].
    pub(crate) class: u8,
    pub(crate) what: T,
}

/// A piece, or several that were merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merged<T> {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// The class that most of the time belongs to.
    pub(crate) class: u8,
    /// That of the longest piece.
    pub(crate) what: T,
    /// The time of all pieces, without what is between them.
    pub(crate) covered_ns: u64,
    /// The number of pieces.
    pub(crate) pieces: u64,
}

/// Merges neighbours that are shorter than a time.
pub(crate) struct Merge<I: Iterator> {
    pieces: Peekable<I>,
    shorter_than_ns: u64,
}

/// Merges pieces that are shorter than `shorter_than_ns`, and nearer to each other than that. What
/// they become is shorter than three times as much.
pub(crate) fn merge<T, I>(pieces: I, shorter_than_ns: u64) -> Merge<I>
where
    I: Iterator<Item = Piece<T>>,
{
    Merge {
        pieces: pieces.peekable(),
        shorter_than_ns,
    }
}

impl<T> Piece<T> {
    const fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

impl<T: Copy, I: Iterator<Item = Piece<T>>> Iterator for Merge<I> {
    type Item = Merged<T>;

    fn next(&mut self) -> Option<Merged<T>> {
        let first = self.pieces.next()?;
        let limit_ns = self.shorter_than_ns;
        let mut merged = Merged {
            begin_ns: first.begin_ns,
            end_ns: first.end_ns,
            class: first.class,
            what: first.what,
            covered_ns: first.length_ns(),
            pieces: 1,
        };
        let mut longest_ns = first.length_ns();
        let mut times_ns = [0_u64; CLASSES];
        times_ns[usize::from(first.class)] = longest_ns;
        // Counts from the begin, so that a group ends when it is long enough to be seen.
        while first.length_ns() < limit_ns && merged.end_ns - merged.begin_ns < limit_ns {
            let (end_ns, joins) = (merged.end_ns, |next: &Piece<T>| next.length_ns() < limit_ns);
            let is_near = |next: &Piece<T>| next.begin_ns.saturating_sub(end_ns) < limit_ns;
            let Some(next) = self.pieces.next_if(|next| joins(next) && is_near(next)) else {
                break;
            };
            merged.end_ns = next.end_ns.max(end_ns);
            merged.covered_ns += next.length_ns();
            merged.pieces += 1;
            times_ns[usize::from(next.class)] += next.length_ns();
            if next.length_ns() > longest_ns {
                longest_ns = next.length_ns();
                merged.what = next.what;
            }
            if times_ns[usize::from(next.class)] > times_ns[usize::from(merged.class)] {
                merged.class = next.class;
            }
        }
        Some(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges pieces given by begin, end and class. Each has its begin as data.
    fn merged(pieces: &[(u64, u64, u8)], shorter_than_ns: u64) -> Vec<Merged<u64>> {
        let pieces = pieces.iter().map(|&(begin_ns, end_ns, class)| Piece {
            begin_ns,
            end_ns,
            class,
            what: begin_ns,
        });
        merge(pieces, shorter_than_ns).collect()
    }

    #[test]
    fn nothing_is_merged_without_a_limit() {
        let pieces = [(0, 1, 0), (1, 1, 1), (1, 3, 2)];
        let all = merged(&pieces, 0);
        assert!(all.iter().all(|it| it.pieces == 1));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn short_neighbours_are_merged_and_long_ones_stay() {
        let pieces = [
            (0, 100, 0),
            (100, 103, 1),
            (103, 105, 2),
            (106, 110, 2),
            (110, 200, 0),
        ];
        let all = merged(&pieces, 20);
        let places: Vec<_> = all
            .iter()
            .map(|it| (it.begin_ns, it.end_ns, it.pieces))
            .collect();
        assert_eq!(places, [(0, 100, 1), (100, 110, 3), (110, 200, 1)]);
        let middle = &all[1];
        assert_eq!((middle.class, middle.what, middle.covered_ns), (2, 106, 9));
    }

    #[test]
    fn a_short_piece_between_long_ones_stays() {
        let all = merged(&[(0, 100, 0), (100, 101, 1), (101, 200, 0)], 20);
        assert_eq!(all[1].pieces, 1);
        assert_eq!(
            (all[1].begin_ns, all[1].end_ns, all[1].class),
            (100, 101, 1)
        );
    }

    #[test]
    fn distant_pieces_are_not_merged() {
        let all = merged(&[(0, 1, 0), (40, 41, 0), (42, 43, 0)], 20);
        let places: Vec<_> = all.iter().map(|it| (it.begin_ns, it.end_ns)).collect();
        assert_eq!(places, [(0, 1), (40, 43)]);
    }

    #[test]
    fn merged_pieces_are_shorter_than_three_times_the_limit() {
        let pieces: Vec<_> = (0..1000)
            .map(|number| (number * 3, number * 3 + 2, 0))
            .collect();
        let all = merged(&pieces, 20);
        assert!(all.iter().all(|it| it.end_ns - it.begin_ns < 60));
        assert!(all.len() <= 3000 / 20, "{}", all.len());
        let covered_ns: u64 = all.iter().map(|it| it.covered_ns).sum();
        assert_eq!(covered_ns, 2000);
    }
}
