//! The second pass: writes the packets of all files, in turns by the times of clock snapshots.

use super::clocks::Snapshot;
use super::rewrite::{Rewriter, SequenceIds};
use crate::error::ToolError;
use crate::packets::Packets;
use crate::trace_file::TraceFile;

/// A file that is being merged.
pub(super) struct MergedFile {
    pub(super) packets: Packets,
    rewriter: Rewriter,
    /// What is added to its times to get those of the first machine.
    offset_ns: i64,
    /// The indexes of the files that must be written before this one.
    waits_for: Vec<usize>,
    turn: Turn,
}

/// When the next packets of a file are written.
#[derive(Debug)]
struct Turn {
    /// The clock snapshot that comes next in the file; empty at the start.
    snapshot: Vec<u8>,
    /// The time of `snapshot` on the first machine; at the start, the earliest time of the file.
    time_ns: i128,
    is_at_end: bool,
}

/// Writes the packets of all files.
pub(super) fn write_all(
    files: &mut [MergedFile],
    ids: &mut SequenceIds,
    out: &mut TraceFile,
) -> Result<(), ToolError> {
    while let Some(index) = next_in_turn(files) {
        files[index].write_until_snapshot(ids, out)?;
    }
    Ok(())
}

/// Returns the index of the file whose next packets are the earliest, according to its clock
/// snapshots.
fn next_in_turn(files: &[MergedFile]) -> Option<usize> {
    let is_ready = |file: &MergedFile| {
        let mut awaited = file.waits_for.iter();
        !file.turn.is_at_end && awaited.all(|index| files[*index].turn.is_at_end)
    };
    let ready = (0..files.len()).filter(|index| is_ready(&files[*index]));
    ready.min_by_key(|index| files[*index].turn.time_ns)
}

impl MergedFile {
    /// Creates the merging of a file whose earliest time is `first_ns`.
    pub(super) fn new(
        packets: Packets,
        rewriter: Rewriter,
        first_ns: u64,
        offset_ns: i64,
        waits_for: Vec<usize>,
    ) -> Self {
        let time_ns = i128::from(first_ns) + i128::from(offset_ns);
        Self {
            packets,
            rewriter,
            offset_ns,
            waits_for,
            turn: Turn {
                snapshot: Vec::new(),
                time_ns,
                is_at_end: false,
            },
        }
    }

    /// Writes all packets before the next clock snapshot.
    fn write_until_snapshot(
        &mut self,
        ids: &mut SequenceIds,
        out: &mut TraceFile,
    ) -> Result<(), ToolError> {
        let turn = &mut self.turn;
        if !turn.snapshot.is_empty()
            && let Ok(Some(packet)) = self.rewriter.rewrite(&turn.snapshot, ids)
        {
            out.write(packet)?;
        }
        loop {
            let Some(packet) = self.packets.next()? else {
                turn.is_at_end = true;
                return Ok(());
            };
            let snapshot = Snapshot::of_packet(packet.bytes);
            if let Some(boot_ns) = snapshot.and_then(|snapshot| snapshot.boot_ns) {
                turn.snapshot.clear();
                turn.snapshot.extend_from_slice(packet.bytes);
                // This time never goes back, so that each file keeps its order even if its clock
                // goes back.
                let time_ns = i128::from(boot_ns) + i128::from(self.offset_ns);
                turn.time_ns = turn.time_ns.max(time_ns);
                return Ok(());
            }
            match self.rewriter.rewrite(packet.bytes, ids) {
                Ok(Some(packet)) => out.write(packet)?,
                Ok(None) => {}
                Err(error) => self.packets.reject_last(error),
            }
        }
    }
}
