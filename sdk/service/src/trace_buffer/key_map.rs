//! A map from the producer and the writer of a chunk to its sequence.

use tracezero_core::ids::{ProducerId, WriterId};

use super::sequence::SequenceIndex;

/// The producer id and the writer id of a sequence, in one word of which 48 bits are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceKey(u64);

impl SequenceKey {
    #[inline]
    pub(super) fn new(producer_id: ProducerId, writer_id: WriterId) -> Self {
        Self(u64::from(producer_id.value()) << 16 | u64::from(writer_id.0))
    }

    pub(super) fn producer_id(self) -> ProducerId {
        ProducerId::new((self.0 >> 16) as u32)
    }

    pub(super) fn writer_id(self) -> WriterId {
        WriterId(self.0 as u16)
    }
}

/// 2^64 divided by the golden ratio: consecutive keys, multiplied by it, are far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// An entry of the map. It is free if it has no index.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: SequenceKey,
    index: Option<SequenceIndex>,
}

/// A hash map with open addressing and linear probing. Entries are never removed.
///
/// With many thousands of sequences, the cost of a look-up is that of the cache lines it touches.
/// This map nearly always touches one. A general hash map touches a second one, for its control
/// bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyMap {
    /// The entries. Their number is 0 or a power of two. At most half of them are in use, so that
    /// each search ends.
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

    /// Adds a key that is not in the map.
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

    /// Returns the position where the search for a key starts. The multiplication spreads
    /// consecutive keys evenly. A producer chooses the ids of its writers but not its own id, so
    /// all keys of a connection are among 2^16 consecutive ones. So few of the keys that it can
    /// choose start at the same position. Many connections together can choose more of them.
    #[inline]
    fn home(&self, key: SequenceKey) -> usize {
        let spread = key.0.wrapping_mul(SPREAD) >> 32;
        // Use the upper bits, as many as the length has.
        ((spread * self.entries.len() as u64) >> 32) as usize
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
        let key = |i: usize| SequenceKey(i as u64 * 0x0001_0003);
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
    fn searches_stay_short_for_any_set_of_writers() {
        // All ids; ids that an attacker would choose, whose searches start in one half of the map;
        // and ids in which only some bits vary.
        let half = |writer: &u16| u64::from(*writer).wrapping_mul(SPREAD) < 1 << 63;
        let patterns: [Vec<u16>; 4] = [
            (1..0x8000).collect(),
            (0..=u16::MAX).filter(half).take(0x7fff).collect(),
            (0..0x2000).map(|i| i << 3).collect(),
            (0..0x8000).map(|i| i << 1).collect(),
        ];
        for writers in patterns {
            let mut map = KeyMap::default();
            for (i, &writer) in writers.iter().enumerate() {
                let key = SequenceKey::new(ProducerId::new(3), WriterId(writer));
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
