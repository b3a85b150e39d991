//! Ids of tracks and flows: they must not collide with those of other processes in the same trace.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// A random id of this process. The process id is not enough: the system uses it again.
static PROCESS: LazyLock<u64> =
    // A new hasher of hash maps has random keys.
    LazyLock::new(|| RandomState::new().hash_one(std::process::id()));

/// The kinds of tracks and flows. The numbers of each kind are independent.
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

/// Returns the uuid of the process's track.
pub(super) fn process() -> u64 {
    *PROCESS
}

/// Returns the id with this kind and number in this process.
pub(super) fn of_process(kind: Kind, number: u64) -> u64 {
    derived(process(), kind, number)
}

/// Returns the id with this kind and number under `parent`. For a given parent and kind, different
/// numbers have different ids.
pub(super) fn derived(parent: u64, kind: Kind, number: u64) -> u64 {
    mix(mix(parent ^ kind as u64) ^ number)
}

/// Returns the id of the flow of a call from one service to another. Different spans of one trace have
/// different ids. The ids must not change: two versions of this library compute those of one call.
pub(super) fn of_call(trace_id: u128, parent_id: u64) -> u64 {
    let (high, low) = ((trace_id >> 64) as u64, trace_id as u64);
    mix(mix(mix(high) ^ low) ^ parent_id).max(1)
}

/// Returns the hash of a name (FNV-1a).
pub(super) fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Spreads a difference in any bit over all bits (the finalizer of splitmix64). Different values
/// stay different.
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
