//! The names of the kernel's counters of memory, in its files and in the schema.
//!
//! The schema names each counter by a value of an enum. The names in the kernel's files follow from
//! those, with a few exceptions, so there is no second list that could differ from the schema.

use std::collections::HashMap;

use tracezero_kernel::protos::{MeminfoCounters, VmstatCounters};

/// Keys of `/proc/meminfo` that do not follow from the name of their counter.
const MEMINFO_EXCEPTIONS: [(MeminfoCounters, &str); 9] = [
    (MeminfoCounters::MEMINFO_ACTIVE_ANON, "Active(anon)"),
    (MeminfoCounters::MEMINFO_INACTIVE_ANON, "Inactive(anon)"),
    (MeminfoCounters::MEMINFO_ACTIVE_FILE, "Active(file)"),
    (MeminfoCounters::MEMINFO_INACTIVE_FILE, "Inactive(file)"),
    (MeminfoCounters::MEMINFO_SLAB_RECLAIMABLE, "SReclaimable"),
    (MeminfoCounters::MEMINFO_SLAB_UNRECLAIMABLE, "SUnreclaim"),
    (MeminfoCounters::MEMINFO_COMMITED_AS, "Committed_AS"),
    (MeminfoCounters::MEMINFO_ION_HEAP, "ION_heap"),
    (MeminfoCounters::MEMINFO_ION_HEAP_POOL, "ION_heap_pool"),
];

/// Counters by their name in the kernel's file.
#[derive(Debug)]
pub(super) struct CounterNames<C>(HashMap<String, C>);

impl<C: Copy> CounterNames<C> {
    /// Returns the counter with this name, if the session wants it.
    pub(super) fn counter(&self, name: &[u8]) -> Option<C> {
        self.0.get(std::str::from_utf8(name).ok()?).copied()
    }
}

impl CounterNames<MeminfoCounters> {
    /// Returns the names of these counters of `/proc/meminfo`; of all if there are none.
    pub(super) fn meminfo(wanted: &[MeminfoCounters]) -> Self {
        let known = (1..).map(MeminfoCounters).map_while(|counter| {
            let name = counter.name()?.strip_prefix("MEMINFO_")?;
            let exception = MEMINFO_EXCEPTIONS.iter().find(|(it, _)| *it == counter);
            let name = match exception {
                Some((_, name)) => (*name).to_owned(),
                None => camel_case(name),
            };
            Some((name, counter))
        });
        Self::of(known, wanted)
    }
}

impl CounterNames<VmstatCounters> {
    /// Returns the names of these counters of `/proc/vmstat`; of all if there are none.
    pub(super) fn vmstat(wanted: &[VmstatCounters]) -> Self {
        let known = (1..).map(VmstatCounters).map_while(|counter| {
            let name = counter.name()?.strip_prefix("VMSTAT_")?;
            Some((name.to_ascii_lowercase(), counter))
        });
        Self::of(known, wanted)
    }
}

impl<C: PartialEq> CounterNames<C> {
    fn of(known: impl Iterator<Item = (String, C)>, wanted: &[C]) -> Self {
        let is_wanted = |counter: &C| wanted.is_empty() || wanted.contains(counter);
        Self(known.filter(|(_, counter)| is_wanted(counter)).collect())
    }
}

/// Returns `MEM_TOTAL` as `MemTotal`.
fn camel_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        first.to_owned() + &rest.to_ascii_lowercase()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_counters_of_the_schema_have_a_name() {
        // Without gaps, `map_while` reaches the last one.
        let beyond =
            |last: i32| (last + 1..last + 100).all(|at| VmstatCounters(at).name().is_none());
        assert_eq!(CounterNames::vmstat(&[]).0.len(), 188);
        assert!(beyond(188));
        assert_eq!(CounterNames::meminfo(&[]).0.len(), 38);
        assert!((39..139).all(|at| MeminfoCounters(at).name().is_none()));
    }

    #[test]
    fn names_are_those_of_the_kernel() {
        let meminfo = CounterNames::meminfo(&[]);
        for (name, number) in [
            ("MemTotal", 1),
            ("Cached", 5),
            ("Inactive(anon)", 10),
            ("SReclaimable", 23),
            ("PageTables", 26),
            ("Committed_AS", 28),
            ("CmaFree", 33),
            ("ION_heap_pool", 38),
        ] {
            let counter = meminfo.counter(name.as_bytes());
            assert_eq!(counter, Some(MeminfoCounters(number)), "{name}");
        }
        assert_eq!(meminfo.counter(b"CommitedAs"), None);
        let vmstat = CounterNames::vmstat(&[]);
        let counter = vmstat.counter(b"nr_free_pages");
        assert_eq!(counter, Some(VmstatCounters::VMSTAT_NR_FREE_PAGES));
        assert_eq!(vmstat.counter(b"\xff"), None);
    }

    #[test]
    fn only_wanted_counters_have_a_name() {
        let wanted = [MeminfoCounters::MEMINFO_MEM_FREE, MeminfoCounters(1000)];
        let names = CounterNames::meminfo(&wanted);
        assert_eq!(names.counter(b"MemFree"), Some(wanted[0]));
        assert_eq!(names.0.len(), 1);
    }
}
