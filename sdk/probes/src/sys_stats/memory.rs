//! Counters of memory: `/proc/meminfo`, `vmstat`, `buddyinfo` and `slabinfo`.

use tracezero_kernel::protos::{MeminfoCounters, SysStats, VmstatCounters};

use super::Counters;
use super::counter_names::CounterNames;
use crate::text_file::{PolledFile, Root};
use crate::words::{lines, number, text_of, words};

/// The number of lines before the table of `slabinfo`: the version, and the names of the columns.
const SLABINFO_HEAD_LINES: usize = 2;

/// Amounts of memory of the machine, in KiB.
#[derive(Debug)]
pub(super) struct Meminfo {
    file: PolledFile,
    names: CounterNames<MeminfoCounters>,
}

impl Meminfo {
    pub(super) fn open(root: &Root, wanted: &[MeminfoCounters]) -> Self {
        Self {
            file: PolledFile::open(root.path("proc/meminfo")),
            names: CounterNames::meminfo(wanted),
        }
    }
}

impl Counters for Meminfo {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        for line in lines(self.file.read(text).unwrap_or_default()) {
            let mut words = words(line);
            let key = words.next().and_then(|word| word.strip_suffix(b":"));
            if let Some(key) = key.and_then(|key| self.names.counter(key))
                && let Some(kib) = words.next().and_then(number)
            {
                out.add_meminfo(|value| {
                    value.set_key(key).set_value(kib);
                });
            }
        }
    }
}

/// Events of the kernel's memory management since the machine's start, and numbers of pages.
#[derive(Debug)]
pub(super) struct Vmstat {
    file: PolledFile,
    names: CounterNames<VmstatCounters>,
}

impl Vmstat {
    pub(super) fn open(root: &Root, wanted: &[VmstatCounters]) -> Self {
        Self {
            file: PolledFile::open(root.path("proc/vmstat")),
            names: CounterNames::vmstat(wanted),
        }
    }
}

impl Counters for Vmstat {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        for line in lines(self.file.read(text).unwrap_or_default()) {
            let mut words = words(line);
            if let Some(key) = words.next().and_then(|name| self.names.counter(name))
                && let Some(count) = words.next().and_then(number)
            {
                out.add_vmstat(|value| {
                    value.set_key(key).set_value(count);
                });
            }
        }
    }
}

/// The numbers of free blocks of each order, by zone: `Node 0, zone Normal 5 4 ...`.
#[derive(Debug)]
pub(super) struct Buddyinfo(PolledFile);

impl Buddyinfo {
    pub(super) fn open(root: &Root) -> Self {
        Self(PolledFile::open(root.path("proc/buddyinfo")))
    }
}

impl Counters for Buddyinfo {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        for line in lines(self.0.read(text).unwrap_or_default()) {
            let mut words = words(line);
            let node = words.nth(1).and_then(|word| word.strip_suffix(b","));
            let (Some(node), Some(zone)) = (node, words.nth(1)) else {
                continue;
            };
            out.add_buddy_info(|info| {
                info.set_node(&text_of(node)).set_zone(&text_of(zone));
                for blocks in words {
                    // The position of a number is its order, so none may be left out.
                    info.add_order_pages(number(blocks).unwrap_or(0));
                }
            });
        }
    }
}

/// The kernel's caches of objects. The file is readable by root alone.
#[derive(Debug)]
pub(super) struct Slabinfo(PolledFile);

impl Slabinfo {
    pub(super) fn open(root: &Root) -> Self {
        Self(PolledFile::open(root.path("proc/slabinfo")))
    }
}

impl Counters for Slabinfo {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        let table = lines(self.0.read(text).unwrap_or_default()).skip(SLABINFO_HEAD_LINES);
        for line in table {
            let mut words = words(line);
            // The columns 0, 5 and 14.
            let (name, pages, slabs) = (words.next(), words.nth(4), words.nth(8));
            if let (Some(name), Some(pages), Some(slabs)) = (name, pages, slabs) {
                out.add_slab_info(|info| {
                    info.set_name(&text_of(name))
                        .set_pages_per_slab(number(pages).unwrap_or(0))
                        .set_num_slabs(number(slabs).unwrap_or(0));
                });
            }
        }
    }
}
