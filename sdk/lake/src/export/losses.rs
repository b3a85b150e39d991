//! The table `loss`: places where packets of a sequence are missing, and how many packets were lost for which
//! reason.

use std::collections::HashMap;

use tracezero_reader::{Loss, Losses};

use crate::error::LakeError;
use crate::staging::Staging;
use crate::table_writer::TableWriter;

/// The maximum number of gaps. Further ones are only counted.
const GAPS_MAX: usize = 1 << 20;
/// The maximum number of sequences whose last time is known.
const SEQUENCES_MAX: usize = 1 << 20;

/// Collects losses.
#[derive(Debug, Default)]
pub(super) struct LossRows {
    pub(super) losses: Losses,
    gaps: Vec<Gap>,
    /// The time of the last packet of each sequence that has a time.
    last_ns: HashMap<u32, u64>,
    /// The sequence and the time of the last packet; most are of the same sequence as the one before.
    current: Option<(u32, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    loss: Loss,
    after_ns: Option<u64>,
    before_ns: Option<u64>,
}

impl LossRows {
    /// Notes the time of a packet.
    #[inline]
    pub(super) fn note_time(&mut self, sequence: u32, time_ns: u64) {
        match &mut self.current {
            Some((current, last_ns)) if *current == sequence => *last_ns = time_ns,
            _ => self.change_sequence(sequence, time_ns),
        }
        // The first packet with a time behind a gap ends it.
        if let Some(gap) = self.gaps.last_mut()
            && gap.before_ns.is_none()
            && gap.loss.sequence_id == sequence
        {
            gap.before_ns = Some(time_ns);
        }
    }

    #[cold]
    fn change_sequence(&mut self, sequence: u32, time_ns: u64) {
        if let Some((earlier, last_ns)) = self.current.replace((sequence, time_ns))
            && (self.last_ns.len() < SEQUENCES_MAX || self.last_ns.contains_key(&earlier))
        {
            self.last_ns.insert(earlier, last_ns);
        }
    }

    /// Adds a place where packets are missing.
    pub(super) fn add(&mut self, loss: &Loss) {
        self.losses.add(loss);
        if self.gaps.len() >= GAPS_MAX {
            return;
        }
        let current = self
            .current
            .filter(|(sequence, _)| *sequence == loss.sequence_id);
        let current = current.map(|(_, last_ns)| last_ns);
        self.gaps.push(Gap {
            loss: *loss,
            after_ns: current.or_else(|| self.last_ns.get(&loss.sequence_id).copied()),
            before_ns: None,
        });
    }

    /// Writes the rows of the table.
    pub(super) fn write(
        &self,
        table: &mut TableWriter,
        staging: &Staging,
    ) -> Result<(), LakeError> {
        for gap in &self.gaps {
            let causes: Vec<_> = gap.loss.causes().collect();
            table
                .row(staging)?
                .text("gap")
                .int(gap.loss.sequence_id.into())
                .maybe_text(None)
                .text(&causes.join("|"))
                .maybe_int(None)
                .maybe_int(gap.after_ns.map(u64::cast_signed))
                .maybe_int(gap.before_ns.map(u64::cast_signed));
        }
        for (id, sequence) in self.losses.lossy() {
            for (cause, packets) in &sequence.packets {
                let thread = Some(&*sequence.thread_name).filter(|name| !name.is_empty());
                table
                    .row(staging)?
                    .text("account")
                    .int((*id).into())
                    .maybe_text(thread)
                    .text(cause)
                    .maybe_int(Some((*packets).try_into().unwrap_or(i64::MAX)))
                    .maybe_int(None)
                    .maybe_int(None);
            }
        }
        Ok(())
    }
}
