//! The table `counter`.

use std::path::PathBuf;

use tracezero_reader::{CounterValue, TrackId};

use crate::error::LakeError;
use crate::sorter::{Key, RowReader, RowWriter, SortRow, Sorter};
use crate::staging::Staging;
use crate::table_writer::TableWriter;
use crate::workers::Workers;

/// The number of rows that are kept in memory.
const ROWS_MAX: usize = 128 * 1024;

/// Collects the values of counters.
#[derive(Debug)]
pub(super) struct CounterRows {
    rows: Sorter<CounterRow>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct CounterRow {
    time_ns: u64,
    /// The index of the packet that has the value.
    packet: u64,
    track: u32,
    value: CounterValue,
}

impl CounterRows {
    pub(super) fn new(workers: &Workers, path: impl Fn(&str) -> PathBuf) -> Self {
        Self {
            rows: Sorter::new(ROWS_MAX, workers, path("counters")),
        }
    }

    /// Adds the value of a counter.
    pub(super) fn add(
        &mut self,
        time_ns: u64,
        packet: u64,
        track: TrackId,
        value: CounterValue,
    ) -> Result<(), LakeError> {
        self.rows.push(CounterRow {
            time_ns,
            packet,
            track: track.index() as u32,
            value,
        })
    }

    /// Writes the rows of the table.
    pub(super) fn write(self, table: &mut TableWriter, staging: &Staging) -> Result<(), LakeError> {
        let mut rows = self.rows.finish()?;
        while let Some(row) = rows.next()? {
            let whole = match row.value {
                CounterValue::Int(value) => Some(value),
                CounterValue::Double(_) => None,
            };
            table
                .row(staging)?
                .uint(row.time_ns)
                .int(row.track.into())
                .maybe_real(Some(row.value.as_f64()))
                .maybe_int(whole);
        }
        Ok(())
    }
}

impl SortRow for CounterRow {
    fn key(&self) -> Key {
        (self.time_ns, self.packet)
    }

    fn write(&self, out: &mut RowWriter<'_>) {
        match self.value {
            CounterValue::Int(value) => {
                out.uint(u64::from(self.track) << 1);
                out.int(value);
            }
            CounterValue::Double(value) => {
                out.uint(u64::from(self.track) << 1 | 1);
                out.uint(value.to_bits());
            }
        }
    }

    fn read((time_ns, packet): Key, input: &mut RowReader<'_>) -> Option<Self> {
        let head = input.uint()?;
        let value = match head & 1 {
            0 => CounterValue::Int(input.int()?),
            _ => CounterValue::Double(f64::from_bits(input.uint()?)),
        };
        Some(Self {
            time_ns,
            packet,
            track: (head >> 1).try_into().ok()?,
            value,
        })
    }
}
