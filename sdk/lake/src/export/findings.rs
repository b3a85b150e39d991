//! The table `finding`: the faults of a trace, by rule.

use std::collections::BTreeMap;

use tracezero_reader::{Finding, Level, Rule};

use crate::error::LakeError;
use crate::staging::Staging;
use crate::table_writer::TableWriter;

/// Counts findings.
#[derive(Debug, Default)]
pub(super) struct FindingRows {
    rows: BTreeMap<(Rule, Level), FindingRow>,
}

/// The findings of a rule.
#[derive(Debug)]
struct FindingRow {
    count: i64,
    first: Finding,
}

impl FindingRows {
    pub(super) fn add(&mut self, finding: &Finding) {
        let key = (finding.rule, finding.level);
        let row = self.rows.entry(key).or_insert_with(|| FindingRow {
            count: 0,
            first: finding.clone(),
        });
        row.count += 1;
    }

    /// Writes the rows of the table.
    pub(super) fn write(
        &self,
        table: &mut TableWriter,
        staging: &Staging,
    ) -> Result<(), LakeError> {
        for ((rule, level), row) in &self.rows {
            let packet = row.first.packet.map(u64::cast_signed);
            table
                .row(staging)?
                .text(rule.name())
                .text(&level.to_string())
                .int(row.count)
                .maybe_int(packet)
                .text(&row.first.text);
        }
        Ok(())
    }
}
