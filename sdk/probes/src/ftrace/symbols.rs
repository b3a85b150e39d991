//! The kernel's functions: their addresses do not leave the machine, their names do.
//!
//! An event has the index of an address. The packet that has the event has the names by index.

use std::collections::HashMap;

/// The longest name of a function that is kept.
const NAME_MAX_BYTES: usize = 128;
/// A function does not reach further than this. An address further behind the last one before it
/// belongs to no known function.
const FUNCTION_MAX_BYTES: u64 = 1 << 20;
/// Suffixes of a second symbol that a compiler makes for a function, to check calls to it.
const CHECKED_CALL_SUFFIXES: [&str; 2] = [".cfi_jt", ".cfi"];

/// Indexes of the addresses that events have, from 1 on, in the order of their first sight. They
/// hold for one packet.
#[derive(Debug, Default)]
pub(crate) struct SymbolIndexes {
    indexes: HashMap<u64, u32>,
    /// The address with index 1, the one with index 2, and so on.
    addresses: Vec<u64>,
}

impl SymbolIndexes {
    /// Returns the index of `address`.
    pub(crate) fn index(&mut self, address: u64) -> u32 {
        *self.indexes.entry(address).or_insert_with(|| {
            self.addresses.push(address);
            self.addresses.len() as u32
        })
    }

    /// Returns the addresses in the order of their indexes: the first one has index 1.
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// Forgets all addresses, to begin the next packet.
    pub(crate) fn clear(&mut self) {
        self.indexes.clear();
        self.addresses.clear();
    }
}

/// The names of the kernel's functions.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// Sorted by address, without duplicates.
    functions: Vec<Function>,
    /// All names, one behind the other.
    names: String,
}

#[derive(Debug)]
struct Function {
    address: u64,
    /// The name in [`KernelSymbols::names`].
    name_start: u32,
    /// 1 to [`NAME_MAX_BYTES`].
    name_len: u8,
}

impl KernelSymbols {
    /// Reads the text of `/proc/kallsyms`: lines `ADDRESS TYPE NAME`, with the module behind them. Of
    /// several names for an address, the first one is kept.
    ///
    /// The kernel shows the address 0 instead of all others to those who may not see them. The table
    /// then is empty.
    pub(crate) fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        for (address, name) in text.lines().filter_map(function) {
            let Ok(name_start) = u32::try_from(symbols.names.len()) else {
                break;
            };
            symbols.functions.push(Function {
                address,
                name_start,
                name_len: name.len() as u8,
            });
            symbols.names.push_str(name);
        }
        // Stable, so that the first name of an address stays in front.
        symbols.functions.sort_by_key(|function| function.address);
        symbols.functions.dedup_by_key(|function| function.address);
        symbols.functions.shrink_to_fit();
        symbols.names.shrink_to_fit();
        symbols
    }

    /// Returns the name of the function that `address` lies in.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let behind = self.functions.partition_point(|f| f.address <= address);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        if address - function.address > FUNCTION_MAX_BYTES {
            return None;
        }
        let start = function.name_start as usize;
        self.names
            .get(start..start + usize::from(function.name_len))
    }

    /// Returns the number of functions.
    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// Returns the memory that the table takes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.functions.capacity() * size_of::<Function>() + self.names.capacity()
    }
}

/// Returns the address and the name in a line, if it is about a function.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    // Names with `$` mark data between functions, on ARM.
    if address == 0 || !matches!(kind, "t" | "T") || name.starts_with('$') {
        return None;
    }
    let mut suffixes = CHECKED_CALL_SUFFIXES.iter();
    let name = suffixes
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    let name = &name[..name.floor_char_boundary(NAME_MAX_BYTES)];
    (!name.is_empty()).then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_count_from_one_by_first_sight() {
        let mut indexes = SymbolIndexes::default();
        assert_eq!(
            [7, 3, 7, 0].map(|address| indexes.index(address)),
            [1, 2, 1, 3]
        );
        assert_eq!(indexes.addresses(), [7, 3, 0]);
        indexes.clear();
        assert!(indexes.addresses().is_empty());
        assert_eq!(indexes.index(3), 1);
    }

    #[test]
    fn address_within_a_function_has_its_name() {
        let symbols = KernelSymbols::parse(
            "ffffffff81000100 t second\n\
             ffffffff81000000 T first\n\
             ffffffff81000000 T other_first\n\
             ffffffff81000080 D data\n\
             ffffffffc0000000 t third.cfi_jt\t[module]\n\
             ffffffffc0000010 t fourth.cfi\n\
             ffffffffc0000020 t $x.3\n\
             \n\
             nonsense\n",
        );
        assert_eq!(symbols.len(), 4);
        assert!(symbols.size_bytes() >= 4 * 16 + "firstsecondthirdfourth".len());
        let name = |address| symbols.name(address);
        assert_eq!(name(0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(0xffff_ffff_8100_0000), Some("first"));
        assert_eq!(name(0xffff_ffff_8100_00ff), Some("first"));
        assert_eq!(name(0xffff_ffff_8100_0100), Some("second"));
        assert_eq!(name(0xffff_ffff_8110_0100), Some("second"));
        assert_eq!(name(0xffff_ffff_8110_0101), None);
        assert_eq!(name(0xffff_ffff_c000_000f), Some("third"));
        assert_eq!(name(0xffff_ffff_c000_0020), Some("fourth"));
    }

    #[test]
    fn hidden_addresses_leave_the_table_empty() {
        let symbols = KernelSymbols::parse("0000000000000000 T first\n0000000000000000 t second\n");
        assert_eq!(symbols.len(), 0);
        assert_eq!(symbols.name(0), None);
        assert_eq!(symbols.name(u64::MAX), None);
    }

    #[test]
    fn long_names_are_cut() {
        let name = "x".repeat(NAME_MAX_BYTES);
        let symbols = KernelSymbols::parse(&format!("10 t {name}y\n20 t {}é\n", &name[1..]));
        assert_eq!(symbols.name(0x10), Some(name.as_str()));
        assert_eq!(symbols.name(0x20), Some(&name[1..]));
    }
}
