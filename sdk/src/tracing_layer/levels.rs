//! A hash table that grows without moving anything, and that is read without a lock.
//!
//! Each level has [`GROWTH`] times as many buckets as the one before, and is made when a bucket of all
//! levels before has no room left. An entry stays where it was put.

use std::sync::OnceLock;

/// Buckets of the first level.
const FIRST_BUCKETS: usize = 16;
/// How many times larger the next level is.
const GROWTH: usize = 4;
/// Levels that there can be; all together have 350,000 buckets.
const LEVELS: usize = 8;

/// Buckets, of which a hash has one in each level.
#[derive(Debug)]
pub(super) struct Levels<B> {
    levels: [OnceLock<Box<[B]>>; LEVELS],
}

/// Where a bucket is.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketIndex {
    level: u8,
    index: u32,
}

impl<B: Default> Levels<B> {
    pub(super) const fn new() -> Self {
        Self {
            levels: [const { OnceLock::new() }; LEVELS],
        }
    }

    /// Returns whether there is no bucket yet.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.levels[0].get().is_none()
    }

    /// The buckets that `key` may be in, those of the first levels first, as far as there are any.
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

    /// The same, to the last level there can be: those that are not yet there are made.
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

    /// The bucket at a place that the iterators gave.
    #[inline]
    pub(super) fn at(&self, BucketIndex { level, index }: BucketIndex) -> Option<&B> {
        self.levels
            .get(usize::from(level))?
            .get()?
            .get(index as usize)
    }
}

impl BucketIndex {
    /// In 21 bits.
    pub(super) fn to_bits(self) -> u32 {
        self.index * LEVELS as u32 + u32::from(self.level)
    }

    /// What [`to_bits`](Self::to_bits) has made.
    #[inline]
    pub(super) fn from_bits(bits: u32) -> Self {
        Self {
            level: (bits % LEVELS as u32) as u8,
            index: bits / LEVELS as u32,
        }
    }
}

/// The place of a key among `len` buckets, a power of two (Fibonacci hashing).
#[inline]
const fn index(key: u64, len: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 32) as usize & (len - 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Room for one key.
    type Bucket = Mutex<Option<u64>>;

    fn insert(levels: &Levels<Bucket>, key: u64) -> Option<BucketIndex> {
        levels.all_buckets(key).find_map(|(index, bucket)| {
            let mut place = bucket.lock().unwrap();
            place.is_none().then(|| {
                *place = Some(key);
                index
            })
        })
    }

    #[test]
    fn what_was_put_into_any_level_is_found_again_at_its_place() {
        let levels = Levels::<Bucket>::new();
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
    fn a_key_finds_no_room_when_its_bucket_is_full_in_every_level() {
        let levels = Levels::<Bucket>::new();
        for _ in 0..LEVELS {
            assert!(insert(&levels, 7).is_some());
        }
        assert!(insert(&levels, 7).is_none());
    }
}
