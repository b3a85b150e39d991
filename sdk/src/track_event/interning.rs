//! Names as numbers.
//!
//! A name has the same number in the whole process, found once per call site. A sequence defines
//! the numbers that it uses, each in the packet that uses it first.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// What a name is the name of. Each kind numbers its names from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    Category,
    Event,
    Arg,
    CounterTrack,
}

impl NameKind {
    pub(super) const COUNT: usize = 4;
}

type Names = HashMap<(NameKind, &'static str), u32>;

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

/// The number of a name.
pub(super) fn intern(kind: NameKind, name: &'static str) -> u32 {
    let mut names = NAMES.lock();
    let next = names.keys().filter(|(other, _)| *other == kind).count() as u32 + 1;
    *names.entry((kind, name)).or_insert(next)
}

/// The numbers that a sequence has defined already.
#[derive(Debug)]
pub(super) struct DefinedNames {
    /// Bit sets, by kind.
    bits: [Vec<u64>; NameKind::COUNT],
}

impl DefinedNames {
    pub(super) const fn new() -> Self {
        Self {
            bits: [const { Vec::new() }; NameKind::COUNT],
        }
    }

    pub(super) fn clear(&mut self) {
        for bits in &mut self.bits {
            bits.fill(0);
        }
    }

    #[inline]
    pub(super) fn contains(&self, kind: NameKind, id: u32) -> bool {
        let word = self.bits[kind as usize].get(id as usize / 64);
        word.is_some_and(|word| word & 1 << (id % 64) != 0)
    }

    /// Returns whether `id` is new to the sequence.
    #[inline]
    pub(super) fn insert(&mut self, kind: NameKind, id: u32) -> bool {
        let bits = &mut self.bits[kind as usize];
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        if let Some(word) = bits.get_mut(word) {
            let is_new = *word & bit == 0;
            *word |= bit;
            return is_new;
        }
        bits.resize(word + 1, 0);
        bits[word] = bit;
        true
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
        assert!(defined.insert(NameKind::Event, 2));
        defined.clear();
        assert!(defined.insert(NameKind::Event, 64));
    }
}
