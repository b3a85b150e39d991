//! Threads that events of the kernel name, for the list of processes.

/// No kernel gives a thread a larger id.
const TID_MAX: i32 = 1 << 22;

/// The threads that were seen since the last pass over the kernel's buffers. Ids are those of the
/// initial namespace.
///
/// Each event names a thread or two, and most of them a thread that was seen before. Seeing it again
/// costs a look at one bit.
#[derive(Debug, Default)]
pub(crate) struct SeenThreads {
    /// The threads in the order of their first sight.
    seen: Vec<i32>,
    /// One bit for each id, which is set for those in `seen`. As long as the largest id needs: at most
    /// 512 KiB.
    bits: Vec<u64>,
    /// Threads whose name has changed.
    pub(crate) renamed: Vec<i32>,
    /// Threads that are gone. Their ids may be given to other threads.
    pub(crate) freed: Vec<i32>,
}

impl SeenThreads {
    /// Notes a thread that runs, wakes up or appears in an event. The idle thread, 0, is left out,
    /// and numbers that are no ids.
    #[inline]
    pub(crate) fn see(&mut self, tid: i32) {
        let (word, bit) = place(tid);
        if tid != 0 && self.bits.get(word).is_none_or(|bits| bits & bit == 0) {
            self.see_first(tid);
        }
    }

    /// Returns the ids of the threads, each of them once, in the order of their first sight.
    pub(crate) fn seen(&self) -> &[i32] {
        &self.seen
    }

    /// Adds the threads of another pass.
    pub(crate) fn extend(&mut self, later: &Self) {
        for tid in &later.seen {
            self.see(*tid);
        }
        self.renamed.extend(&later.renamed);
        self.freed.extend(&later.freed);
    }

    /// Forgets all threads, to begin the next pass.
    pub(crate) fn clear(&mut self) {
        for tid in self.seen.drain(..) {
            self.bits[place(tid).0] = 0;
        }
        self.renamed.clear();
        self.freed.clear();
    }

    #[cold]
    fn see_first(&mut self, tid: i32) {
        if !(1..=TID_MAX).contains(&tid) {
            return;
        }
        let (word, bit) = place(tid);
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= bit;
        self.seen.push(tid);
    }
}

impl FromIterator<i32> for SeenThreads {
    fn from_iter<T: IntoIterator<Item = i32>>(tids: T) -> Self {
        let mut threads = Self::default();
        tids.into_iter().for_each(|tid| threads.see(tid));
        threads
    }
}

/// Returns the word and the bit of an id. The word of a negative number is behind all others.
fn place(tid: i32) -> (usize, u64) {
    (tid as u32 as usize / 64, 1 << (tid as u32 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_listed_once_in_order() {
        let mut threads = SeenThreads::default();
        for tid in [70, 3, 70, TID_MAX, 64, 3, TID_MAX] {
            threads.see(tid);
        }
        assert_eq!(threads.seen(), [70, 3, TID_MAX, 64]);
    }

    #[test]
    fn numbers_that_are_no_ids_are_left_out() {
        let mut threads = SeenThreads::default();
        for tid in [0, -1, i32::MIN, i32::MAX, TID_MAX + 1] {
            threads.see(tid);
        }
        assert!(threads.seen().is_empty());
        assert!(threads.bits.is_empty());
    }

    #[test]
    fn cleared_threads_are_seen_again() {
        let mut threads = SeenThreads::default();
        threads.see(5);
        threads.see(6);
        threads.renamed.push(5);
        threads.freed.push(6);
        threads.clear();
        assert!(
            threads.seen().is_empty() && threads.renamed.is_empty() && threads.freed.is_empty()
        );
        threads.see(6);
        assert_eq!(threads.seen(), [6]);
    }
}
