//! A hash table that grows without moving entries, and that is read without a lock.
//!
//! The table consists of levels. Each level has [`GROWTH`] times as many buckets as the one before.
//! A level is allocated when a key's buckets in all earlier levels are full. An entry stays where
//! it was put.

use std::sync::OnceLock;

/// The number of buckets of the first level.
const FIRST_BUCKETS: usize = 16;
/// The factor by which each level is larger than the one before.
const GROWTH: usize = 4;
/// The number of levels at most. Together they have 350,000 buckets.
const LEVELS: usize = 8;

/// The levels of buckets. A key belongs to one bucket in each level.
#[derive(Debug)]
pub(super) struct GrowingTable<B> {
    levels: [OnceLock<Box<[B]>>; LEVELS],
}

/// The position of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketIndex {
    level: u8,
    index: u32,
}

impl<B: Default> GrowingTable<B> {
    pub(super) const fn new() -> Self {
        Self {
            levels: [const { OnceLock::new() }; LEVELS],
        }
    }

    /// Returns whether no level is allocated yet.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.levels[0].get().is_none()
    }

    /// Returns the buckets in which `key` may be, in the order of their levels, as far as levels
    /// are allocated.
    #[inline]
    pub(super) fn buckets(&self, key: u64) -> impl Iterator<Item = (BucketIndex, &B)> {
        self.levels
            .iter()
            .zip(0_u8..)
            .map_while(move |(level, at)| {
                let buckets = level.get()?;
                let index = index(key, buckets.len());
                let bucket = buckets.get(index)?;
                let index = index as u32;
                Some((BucketIndex { level: at, index }, bucket))
            })
    }

    /// Returns the buckets in which `key` may be, in all levels. Levels that are missing are
    /// allocated.
    #[inline]
    pub(super) fn all_buckets(&self, key: u64) -> impl Iterator<Item = (BucketIndex, &B)> {
        self.levels
            .iter()
            .zip(0_u8..)
            .filter_map(move |(level, at)| {
                let buckets = level.get_or_init(|| {
                    let len = FIRST_BUCKETS * GROWTH.pow(u32::from(at));
                    (0..len).map(|_| B::default()).collect()
                });
                let index = index(key, buckets.len());
                let bucket = buckets.get(index)?;
                let index = index as u32;
                Some((BucketIndex { level: at, index }, bucket))
            })
    }

    /// Returns the bucket at an index that an iterator has returned.
    #[inline]
    pub(super) fn at(&self, BucketIndex { level, index }: BucketIndex) -> Option<&B> {
        self.levels
            .get(usize::from(level))?
            .get()?
            .get(index as usize)
    }
}

impl BucketIndex {
    /// Encodes the index in 21 bits.
    pub(super) fn to_bits(self) -> u32 {
        self.index * LEVELS as u32 + u32::from(self.level)
    }

    /// Decodes an index from [`to_bits`](Self::to_bits).
    #[inline]
    pub(super) fn from_bits(bits: u32) -> Self {
        Self {
            level: (bits % LEVELS as u32) as u8,
            index: bits / LEVELS as u32,
        }
    }
}

/// Returns the index of the key's bucket among `len` buckets (Fibonacci hashing). `len` is a power
/// of two.
#[inline]
const fn index(key: u64, len: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 32) as usize & (len - 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A bucket for one key.
    type Bucket = Mutex<Option<u64>>;

    fn insert(levels: &GrowingTable<Bucket>, key: u64) -> Option<BucketIndex> {
        levels.all_buckets(key).find_map(|(index, bucket)| {
            let mut place = bucket.lock().unwrap();
            place.is_none().then(|| {
                *place = Some(key);
                index
            })
        })
    }

    #[test]
    fn entries_of_every_level_are_found_again() {
        let levels = GrowingTable::<Bucket>::new();
        assert_eq!(levels.buckets(1).count(), 0);
        let places: Vec<_> = (1..=1000)
            .map(|key| insert(&levels, key << 38).unwrap())
            .collect();
        for (key, place) in (1..=1000).zip(places) {
            let key = key << 38;
            let found = levels
                .buckets(key)
                .any(|(_, bucket)| *bucket.lock().unwrap() == Some(key));
            assert!(found);
            assert_eq!(*levels.at(place).unwrap().lock().unwrap(), Some(key));
            let again = BucketIndex::from_bits(place.to_bits());
            assert_eq!((again.level, again.index), (place.level, place.index));
        }
    }

    #[test]
    fn insert_fails_when_all_buckets_of_a_key_are_full() {
        let levels = GrowingTable::<Bucket>::new();
        for _ in 0..LEVELS {
            assert!(insert(&levels, 7).is_some());
        }
        assert!(insert(&levels, 7).is_none());
    }
}
