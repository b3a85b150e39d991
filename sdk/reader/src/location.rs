//! Places in the source code.

use std::collections::HashMap;

use crate::names::{NameId, NameTable};

/// The maximum number of places that are stored, which take about 50 MiB. Further ones are unknown.
const LOCATIONS_MAX: usize = 1 << 20;

/// A place in the source code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location<'a> {
    /// The path of the file. Empty if it is not known.
    pub file: &'a str,
    /// The name of the function. Empty if it is not known.
    pub function: &'a str,
    /// The line number, from 1. 0 if it is not known.
    pub line: u32,
}

/// All places in the source code that the trace names. Each is stored once.
#[derive(Clone, Debug, Default)]
pub(super) struct Locations {
    /// File, function, line.
    all: Vec<(NameId, NameId, u32)>,
    ids: HashMap<(NameId, NameId, u32), u32>,
}

impl Locations {
    /// The number that stands for all places for which there is no room.
    const UNKNOWN: u32 = LOCATIONS_MAX as u32;

    /// Returns the number of a place, which is added if it is new; [`Self::UNKNOWN`] if there is no
    /// room.
    pub(super) fn id(&mut self, location: (NameId, NameId, u32)) -> u32 {
        if self.all.len() == LOCATIONS_MAX {
            return self.ids.get(&location).copied().unwrap_or(Self::UNKNOWN);
        }
        *self.ids.entry(location).or_insert_with(|| {
            self.all.push(location);
            self.all.len() as u32 - 1
        })
    }

    /// Returns the place with this number.
    pub(super) fn find<'a>(&self, id: u32, names: &'a NameTable) -> Option<Location<'a>> {
        let (file, function, line) = *self.all.get(id as usize)?;
        Some(Location {
            file: names.text(file),
            function: names.text(function),
            line,
        })
    }
}
