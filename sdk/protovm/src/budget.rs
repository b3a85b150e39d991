//! Counts what a patch costs, in steps and in units of work.

use crate::error::AbortCause;
use crate::limits::{STEPS_MAX_PER_PATCH, WORK_MAX_PER_PATCH};

pub(crate) const NODE_WORK: usize = 16;
const COPIED_BYTES_PER_UNIT: usize = 64;

/// The rest of a patch's budget.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: u32,
    work: u32,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self {
            steps: STEPS_MAX_PER_PATCH,
            work: WORK_MAX_PER_PATCH,
        }
    }

    /// Returns what the patch has cost so far: steps and units of work.
    pub(crate) const fn spent(&self) -> u64 {
        let steps = STEPS_MAX_PER_PATCH - self.steps;
        let work = WORK_MAX_PER_PATCH - self.work;
        steps as u64 + work as u64
    }

    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), AbortCause> {
        self.steps = self.steps.checked_sub(1).ok_or(AbortCause::StepLimit)?;
        Ok(())
    }

    #[inline]
    pub(crate) fn work(&mut self, units: usize) -> Result<(), AbortCause> {
        let left = u32::try_from(units)
            .ok()
            .and_then(|units| self.work.checked_sub(units));
        let result = left.map(drop).ok_or(AbortCause::WorkLimit);
        self.work = left.unwrap_or(0);
        result
    }

    #[inline]
    pub(crate) fn copy(&mut self, len_bytes: usize) -> Result<(), AbortCause> {
        self.work(len_bytes / COPIED_BYTES_PER_UNIT)
    }
}
