//! Interning: names are written as numbers (*iids*).
//!
//! A name has the same iid in the whole process, and a call site looks it up once. Each sequence
//! defines an iid in the packet that uses it first, as Perfetto's format requires. For that, a
//! thread keeps one bit per name and sequence, so recording an event looks up no name.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// The kinds of interned names. Each kind counts its iids from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    Category,
    Event,
    Arg,
}

impl NameKind {
    const COUNT: usize = 3;
}

/// The iids of all names, by kind.
type Names = [HashMap<&'static str, u32>; NameKind::COUNT];

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

/// Returns the iid of a name.
pub(super) fn intern(kind: NameKind, name: &'static str) -> u32 {
    let names = &mut NAMES.lock()[kind as usize];
    let next = names.len() as u32 + 1;
    *names.entry(name).or_insert(next)
}

/// The iids that a sequence has defined already.
#[derive(Debug)]
pub(super) struct DefinedNames {
    /// The call sites whose names are all defined.
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

    /// Returns true if all names of the call site are defined.
    #[inline]
    pub(super) fn contains_site(&self, site: u32) -> bool {
        self.sites.contains(site)
    }

    /// Notes that all names of the call site are defined.
    pub(super) fn insert_site(&mut self, site: u32) {
        self.sites.insert(site);
    }

    /// Adds an iid. Returns true if the sequence had not defined it.
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

    /// Adds `id`. Returns true if it is new.
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
    fn name_keeps_its_iid_and_kinds_count_separately() {
        let first = intern(NameKind::Arg, "interning test 1");
        let second = intern(NameKind::Arg, "interning test 2");
        assert_ne!(first, second);
        assert_eq!(intern(NameKind::Arg, "interning test 1"), first);
        assert!(intern(NameKind::Category, "interning test 1") >= 1);
    }

    #[test]
    fn each_iid_is_new_once_until_cleared() {
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
