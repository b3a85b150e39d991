//! Names as numbers.
//!
//! A name has the same number in the whole process, found once per call site. A sequence defines
//! the numbers that it uses, each in the packet that uses it first, so readers see the usual encoding.
//! A thread keeps one bit per name for each sequence, and looks up no name when it records an event.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// What a name is the name of. Each kind numbers its names from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    Category,
    Event,
    Arg,
}

impl NameKind {
    const COUNT: usize = 3;
}

/// Names and their numbers, by kind.
type Names = [HashMap<&'static str, u32>; NameKind::COUNT];

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

/// The number of a name.
pub(super) fn intern(kind: NameKind, name: &'static str) -> u32 {
    let names = &mut NAMES.lock()[kind as usize];
    let next = names.len() as u32 + 1;
    *names.entry(name).or_insert(next)
}

/// The names that a sequence has defined already, and whose.
#[derive(Debug)]
pub(super) struct DefinedNames {
    /// Call sites all of whose names are defined.
    sites: BitSet,
    names: [BitSet; NameKind::COUNT],
}

#[derive(Debug)]
struct BitSet(Vec<u64>);

impl DefinedNames {
    pub(super) const fn new() -> Self {
        Self {
            sites: BitSet::new(),
            names: [const { BitSet::new() }; NameKind::COUNT],
        }
    }

    pub(super) fn clear(&mut self) {
        self.sites.0.fill(0);
        for names in &mut self.names {
            names.0.fill(0);
        }
    }

    /// Whether all names of a call site are defined.
    #[inline]
    pub(super) fn contains_site(&self, site: u32) -> bool {
        self.sites.contains(site)
    }

    /// All names of a call site are defined now.
    pub(super) fn insert_site(&mut self, site: u32) {
        self.sites.insert(site);
    }

    /// Returns whether `id` is new to the sequence.
    pub(super) fn insert(&mut self, kind: NameKind, id: u32) -> bool {
        self.names[kind as usize].insert(id)
    }
}

impl BitSet {
    const fn new() -> Self {
        Self(Vec::new())
    }

    #[inline]
    fn contains(&self, id: u32) -> bool {
        let word = self.0.get(id as usize / 64);
        word.is_some_and(|word| word & 1 << (id % 64) != 0)
    }

    /// Returns whether `id` is new.
    fn insert(&mut self, id: u32) -> bool {
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_kinds_count_apart() {
        let first = intern(NameKind::Arg, "interning test 1");
        let second = intern(NameKind::Arg, "interning test 2");
        assert_ne!(first, second);
        assert_eq!(intern(NameKind::Arg, "interning test 1"), first);
        assert!(intern(NameKind::Category, "interning test 1") >= 1);
    }

    #[test]
    fn a_sequence_defines_each_number_once_until_it_is_cleared() {
        let mut defined = DefinedNames::new();
        for id in [1, 63, 64, 1000] {
            assert!(defined.insert(NameKind::Event, id));
            assert!(!defined.insert(NameKind::Event, id));
            assert!(defined.insert(NameKind::Arg, id));
        }
        assert!(!defined.contains_site(64));
        defined.insert_site(64);
        assert!(defined.contains_site(64) && !defined.contains_site(63));
        defined.clear();
        assert!(defined.insert(NameKind::Event, 64));
        assert!(!defined.contains_site(64));
    }
}
