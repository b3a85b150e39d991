//! A map for a handful of entries, in the order of their keys.
//!
//! The maps of the SDK hold sessions, producers, instances or timers: about ten entries each, which
//! are not looked up while an event is recorded. A `BTreeMap` would add 12 KB of code to every
//! program for each such map.

/// A map whose entries lie in one sorted vector. A look-up is a binary search. Adding and removing
/// an entry move the entries behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallMap<K, V> {
    /// The entries in the order of their keys. No two entries have the same key.
    entries: Vec<(K, V)>,
}

impl<K, V> SmallMap<K, V> {
    /// Creates a map without entries.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the map has no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries in the order of their keys.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Returns the entries in the order of their keys.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Returns the keys in order.
    #[must_use]
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
    #[must_use]
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    /// Returns the values in the order of their keys.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// Returns the entry with the least key.
    #[must_use]
    pub fn first(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// Removes the entry with the least key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (!self.is_empty()).then(|| self.entries.remove(0))
    }

    /// Removes the entries for which `is_kept` returns false.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(key, value)| is_kept(key, value));
    }

    /// Removes the entries for which `is_taken` returns true, and returns them.
    pub fn extract(&mut self, mut is_taken: impl FnMut(&K, &V) -> bool) -> Vec<(K, V)> {
        self.entries
            .extract_if(.., |(key, value)| is_taken(key, value))
            .collect()
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    /// Returns the value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let place = self.find(key).ok()?;
        Some(&self.entries[place].1)
    }

    /// Returns the value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let place = self.find(key).ok()?;
        Some(&mut self.entries[place].1)
    }

    /// Returns whether the map has a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Sets the value of a key. Returns the value that the key had before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(place) => Some(std::mem::replace(&mut self.entries[place].1, value)),
            Err(place) => {
                self.entries.insert(place, (key, value));
                None
            }
        }
    }

    /// Returns the value of a key. If the map does not have the key, adds it with the default
    /// value.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let place = self.find(&key).unwrap_or_else(|place| {
            self.entries.insert(place, (key, V::default()));
            place
        });
        &mut self.entries[place].1
    }

    /// Removes a key. Returns the value that the key had.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let place = self.find(key).ok()?;
        Some(self.entries.remove(place).1)
    }

    /// Returns the index of a key, or `Err` with the index where it would be.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries
            .binary_search_by(|(other, _)| other.borrow().cmp(key))
    }
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SmallMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K, V> IntoIterator for SmallMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns pseudo-random numbers, without end.
    fn numbers() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(1_u64), |number| {
            Some(
                number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            )
        })
        .map(|number| number >> 33)
    }

    #[test]
    fn small_map_behaves_like_a_btree_map() {
        let (mut map, mut tree) = (SmallMap::new(), BTreeMap::new());
        let mut numbers = numbers();
        for value in 0..10_000 {
            let key = numbers.next().expect("endless") % 20;
            match numbers.next().expect("endless") % 8 {
                0 => assert_eq!(map.remove(&key), tree.remove(&key)),
                1 => assert_eq!(map.pop_first(), tree.pop_first()),
                2 => {
                    map.retain(|key, _| key % 3 != 0);
                    tree.retain(|key, _| key % 3 != 0);
                }
                3 => {
                    let taken = tree.extract_if(.., |key, _| key % 5 == 0);
                    assert_eq!(
                        map.extract(|key, _| key % 5 == 0),
                        taken.collect::<Vec<_>>()
                    );
                }
                4 => assert_eq!(map.or_default(key), tree.entry(key).or_default()),
                _ => assert_eq!(map.insert(key, value), tree.insert(key, value)),
            }
            assert_eq!(map.get(&key), tree.get(&key));
            assert_eq!(map.contains_key(&key), tree.contains_key(&key));
            assert_eq!(map.first(), tree.first_key_value());
            assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
            assert!(map.iter().eq(&tree) && map.iter_mut().eq(&mut tree));
            assert!(map.keys().eq(tree.keys()) && map.values().eq(tree.values()));
        }
        assert_eq!(map, tree.into_iter().collect());
    }
}
