//! From the producer and the writer of a chunk to its sequence.

use tracezero_core::ids::{ProducerId, WriterId};

use super::sequence::SequenceIndex;

/// Who wrote a sequence, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceKey(u32);

impl SequenceKey {
    #[inline]
    pub(super) fn new(producer_id: ProducerId, writer_id: WriterId) -> Self {
        Self(u32::from(producer_id.0) << 16 | u32::from(writer_id.0))
    }

    pub(super) fn producer_id(self) -> ProducerId {
        ProducerId((self.0 >> 16) as u16)
    }

    pub(super) fn writer_id(self) -> WriterId {
        WriterId(self.0 as u16)
    }
}

/// An entry of the map; without an index it is free.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: SequenceKey,
    index: Option<SequenceIndex>,
}

/// A map that only grows: open addressing, linear probing.
///
/// With many thousands of sequences a look-up costs as much as the cache lines it touches. Here
/// that is one, nearly always; a general map has a second one for its control bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyMap {
    /// Empty or a power of two of them, at most half in use, so that each search ends.
    entries: Vec<Entry>,
    len: usize,
}

impl KeyMap {
    pub(super) fn get(&self, key: SequenceKey) -> Option<SequenceIndex> {
        if self.entries.is_empty() {
            return None;
        }
        let mut place = self.home(key);
        loop {
            let entry = &self.entries[place];
            if entry.key == key || entry.index.is_none() {
                return entry.index;
            }
            place = self.next(place);
        }
    }

    /// Adds a key that is not there yet.
    pub(super) fn insert(&mut self, key: SequenceKey, index: SequenceIndex) {
        if self.entries.len() < 2 * (self.len + 1) {
            self.grow();
        }
        self.len += 1;
        self.put(Entry {
            key,
            index: Some(index),
        });
    }

    fn put(&mut self, entry: Entry) {
        let mut place = self.home(entry.key);
        while self.entries[place].index.is_some() {
            place = self.next(place);
        }
        self.entries[place] = entry;
    }

    fn grow(&mut self) {
        const ENTRIES_MIN: usize = 16;
        let grown = vec![Entry::default(); (2 * self.entries.len()).max(ENTRIES_MIN)];
        for entry in std::mem::replace(&mut self.entries, grown) {
            if entry.index.is_some() {
                self.put(entry);
            }
        }
    }

    /// Where the search for a key starts. Multiplying spreads consecutive numbers, as the keys of
    /// one producer are, evenly, so a producer cannot pick writers that all meet at one place. It
    /// does not pick its own number.
    #[inline]
    fn home(&self, key: SequenceKey) -> usize {
        let spread = key.0.wrapping_mul(0x9e37_79b1);
        // The upper bits, as many as the length has.
        ((u64::from(spread) * self.entries.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_after_the_map_has_grown() {
        let mut map = KeyMap::default();
        let key = |i: usize| SequenceKey(i as u32 * 0x0001_0003);
        for i in 0..1000 {
            assert_eq!(map.get(key(i)), None);
            map.insert(key(i), SequenceIndex::new(i));
        }
        for i in 0..1000 {
            assert_eq!(map.get(key(i)), Some(SequenceIndex::new(i)));
        }
        assert_eq!(map.get(key(1000)), None);
    }

    #[test]
    fn searches_stay_short_whatever_writers_a_producer_opens() {
        // All ids; those that an attacker would pick, whose home is in one half of the map; and
        // those in which only some bits vary.
        let half = |writer: &u16| u32::from(*writer).wrapping_mul(0x9e37_79b1) < 1 << 31;
        let patterns: [Vec<u16>; 4] = [
            (1..0x8000).collect(),
            (0..=u16::MAX).filter(half).take(0x7fff).collect(),
            (0..0x2000).map(|i| i << 3).collect(),
            (0..0x8000).map(|i| i << 1).collect(),
        ];
        for writers in patterns {
            let mut map = KeyMap::default();
            for (i, &writer) in writers.iter().enumerate() {
                let key = SequenceKey::new(ProducerId(3), WriterId(writer));
                map.insert(key, SequenceIndex::new(i));
            }
            let steps: usize = (map.entries.iter().enumerate())
                .filter(|(_, entry)| entry.index.is_some())
                .map(|(place, entry)| {
                    place.wrapping_sub(map.home(entry.key)) & (map.entries.len() - 1)
                })
                .sum();
            assert!(steps <= 2 * writers.len(), "{steps} for {}", writers.len());
        }
    }
}
