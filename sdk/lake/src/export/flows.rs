//! The table `flow`.
//!
//! A flow is a number that events have in common. An arrow leads from each slice of a flow to the next one in
//! time, until the flow ends in a slice.

use std::path::PathBuf;

use super::details::FlowEnd;
use crate::error::LakeError;
use crate::sorter::{Key, RowReader, RowWriter, SortRow, Sorter};
use crate::staging::Staging;
use crate::table_writer::TableWriter;
use crate::workers::Workers;

/// The number of rows of each kind that are kept in memory.
const ROWS_MAX: usize = 64 * 1024;

/// Collects the flows of slices, and then the numbers of these slices.
#[derive(Debug)]
pub(super) struct FlowRows {
    visits: Sorter<Visit>,
    slices: Sorter<SliceId>,
    workers: Workers,
    path: PathBuf,
}

/// A slice that a flow goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Visit {
    /// The packet that began the slice.
    packet: u64,
    flow: FlowEnd,
    /// The time of the event that has the flow: the begin or the end of the slice.
    time_ns: u64,
}

/// The number of a slice in the table `slice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SliceId {
    packet: u64,
    id: u64,
}

/// A slice that a flow goes through, in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    flow: u64,
    time_ns: u64,
    id: u64,
    is_last: bool,
}

impl FlowRows {
    pub(super) fn new(workers: &Workers, path: impl Fn(&str) -> PathBuf) -> Self {
        Self {
            visits: Sorter::new(ROWS_MAX, workers, path("visits")),
            slices: Sorter::new(ROWS_MAX, workers, path("slice_ids")),
            workers: workers.clone(),
            path: path("flow_steps"),
        }
    }

    /// Notes that a flow goes through the slice that the event in `packet` began.
    pub(super) fn add(
        &mut self,
        packet: u64,
        flow: FlowEnd,
        time_ns: u64,
    ) -> Result<(), LakeError> {
        self.visits.push(Visit {
            packet,
            flow,
            time_ns,
        })
    }

    /// Notes the number of the slice that the event in `packet` began.
    pub(super) fn set_id(&mut self, packet: u64, id: u64) -> Result<(), LakeError> {
        self.slices.push(SliceId { packet, id })
    }

    /// Writes the rows of the table.
    pub(super) fn write(self, table: &mut TableWriter, staging: &Staging) -> Result<(), LakeError> {
        let mut steps = Sorter::new(ROWS_MAX, &self.workers, self.path);
        let mut visits = self.visits.finish()?;
        let mut slices = self.slices.finish()?;
        let mut slice = slices.next()?;
        while let Some(visit) = visits.next()? {
            while let Some(earlier) = slice
                && earlier.packet < visit.packet
            {
                slice = slices.next()?;
            }
            if let Some(SliceId { packet, id }) = slice
                && packet == visit.packet
            {
                steps.push(Step {
                    flow: visit.flow.flow,
                    time_ns: visit.time_ns,
                    id,
                    is_last: visit.flow.is_last,
                })?;
            }
        }
        let mut steps = steps.finish()?;
        let mut previous: Option<Step> = None;
        while let Some(step) = steps.next()? {
            let from = previous.filter(|from| from.flow == step.flow && !from.is_last);
            if let Some(from) = from {
                table
                    .row(staging)?
                    .int(step.flow.cast_signed())
                    .uint(from.id)
                    .uint(step.id);
            }
            // A flow cannot end where it has not begun.
            previous = (from.is_some() || !step.is_last).then_some(step);
        }
        Ok(())
    }
}

impl SortRow for Visit {
    fn key(&self) -> Key {
        (self.packet, self.time_ns)
    }

    fn write(&self, out: &mut RowWriter<'_>) {
        out.uint(self.flow.flow);
        out.uint(self.flow.is_last.into());
    }

    fn read((packet, time_ns): Key, input: &mut RowReader<'_>) -> Option<Self> {
        Some(Self {
            packet,
            time_ns,
            flow: FlowEnd {
                flow: input.uint()?,
                is_last: input.uint()? != 0,
            },
        })
    }
}

impl SortRow for SliceId {
    fn key(&self) -> Key {
        (self.packet, 0)
    }

    fn write(&self, out: &mut RowWriter<'_>) {
        out.uint(self.id);
    }

    fn read((packet, _): Key, input: &mut RowReader<'_>) -> Option<Self> {
        Some(Self {
            packet,
            id: input.uint()?,
        })
    }
}

impl SortRow for Step {
    fn key(&self) -> Key {
        (self.flow, self.time_ns)
    }

    fn write(&self, out: &mut RowWriter<'_>) {
        out.uint(self.id);
        out.uint(self.is_last.into());
    }

    fn read((flow, time_ns): Key, input: &mut RowReader<'_>) -> Option<Self> {
        Some(Self {
            flow,
            time_ns,
            id: input.uint()?,
            is_last: input.uint()? != 0,
        })
    }
}
