//! Numbers that tell the tracks and flows of this process from all others in a trace.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// What tells this process from all others: a process id alone comes again.
static PROCESS: LazyLock<u64> =
    // The keys of a hash map's hasher are random.
    LazyLock::new(|| RandomState::new().hash_one(std::process::id()));

/// What a number counts. Each kind has numbers of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Thread,
    NamedTrack,
    NumberedTrack,
    NewTrack,
    CounterTrack,
    ThreadTime,
    NewFlow,
    NumberedFlow,
}

/// The process as a track.
pub(super) fn process() -> u64 {
    *PROCESS
}

/// Number `number` of `kind` in this process.
pub(super) fn of_process(kind: Kind, number: u64) -> u64 {
    derived(process(), kind, number)
}

/// Number `number` of `kind` under `parent`. One to one for each parent and kind.
pub(super) fn derived(parent: u64, kind: Kind, number: u64) -> u64 {
    mix(mix(parent ^ kind as u64) ^ number)
}

/// A name as a number (FNV-1a).
pub(super) fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Spreads a difference in any bit over all bits (the finalizer of splitmix64). One to one.
const fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_by_kind_parent_and_number() {
        let all = [
            of_process(Kind::Thread, 1),
            of_process(Kind::Thread, 2),
            of_process(Kind::NewTrack, 1),
            derived(1, Kind::Thread, 1),
            of_process(Kind::NamedTrack, hash("a")),
            of_process(Kind::NamedTrack, hash("b")),
            process(),
        ];
        for (index, number) in all.iter().enumerate() {
            assert!(!all[..index].contains(number), "{all:?}");
        }
        assert_eq!(of_process(Kind::Thread, 1), all[0]);
    }
}
