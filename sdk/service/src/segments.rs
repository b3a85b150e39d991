//! Segments: the trace of a session as a row of files, each of which is a trace of its own.
//!
//! A packet can build on earlier ones of its sequence, so a sequence can only be cut where it starts
//! its incremental state. [`Service::begin_segment`] asks all writers to start their state again.
//! From then on, two files are open:
//!
//! ```text
//!                begin_segment          a     b             end_segment
//!   older  ---a-b-a-b-|-a---b---b-------------'---------------|
//!   newer             |-----------------[a]a-a-a-[b]-b-a-b----|-a-b--   [a]: a starts its state
//! ```
//!
//! Each sequence goes on in the older segment until it starts its state; that packet and all later
//! ones are in the newer segment. So a packet is in one segment, and after the packets that it
//! builds on. No packet is in two, because only the place of a sequence decides. None is missing
//! between two, because the same pass over the buffers writes both files. Sequences that never start
//! a state build on nothing, and change at once.
//!
//! The owner decides when the older segment ends ([`Service::end_segment`]): when all sequences have
//! left it, or when none has left it for a while. A sequence that stays is that of a thread that
//! records nothing. Its next packet starts the state, because every event looks first whether it
//! must. What is left is a thread that has looked just before it was asked, and was held up since.
//! If its packet comes after the end of the segment, the packet is left out, counted as
//! `undecodable`, and the next one reports the loss.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::packet_framer::ReadCounts;
use super::segment_store::EndedSegment;
use super::sequence_account::SequenceAccount;
use super::service::Service;
use super::trace_output::TraceOutput;
use super::trace_reader::TraceReader;
use super::trace_stats::TraceStats;
use tracezero_core::ids::SessionId;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

/// The progress of the newest segment, and of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentProgress {
    /// The size of the newest segment so far.
    pub bytes: u64,
    /// The number of packets of writers in it.
    pub packets: u64,
    /// The older segment, if it has not ended.
    pub older: Option<OlderSegment>,
}

/// A segment that sequences are about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OlderSegment {
    /// The number of sequences that are in the segment.
    pub sequences: usize,
    /// The number of packets of writers in it.
    pub packets: u64,
}

impl Service {
    /// Begins another segment of a session whose trace is written into segments. Ends the older one
    /// first, if it has not ended.
    pub fn begin_segment(&self, session: SessionId, output: TraceOutput) {
        self.end_segment(session);
        let Some(reader) = self.reader(session) else {
            return;
        };
        let buffers = {
            let mut reader = reader.lock();
            reader.begin_segment(output);
            if let Some(segments) = &mut reader.segments {
                segments.has_older = true;
            }
            self.note_moved(session, &mut reader);
            reader.buffers().to_vec()
        };
        self.with_session(session, |session, context| {
            session.begin_trace_anew(context.environment);
            session.renew_clock_snapshot(context.environment);
            session.due.sync_marker = true;
            session.scrape_before_next_write();
            session.ask_to_clear_incremental_state(context);
        });
        // Only now, so that each start of a state that follows is in the newer segment.
        for buffer in buffers {
            buffer.restart_states();
        }
    }

    /// Ends the older segment, if there is one.
    pub fn end_segment(&self, session: SessionId) {
        let Some(reader) = self.reader(session) else {
            return;
        };
        let output = reader.lock().older_output.take();
        if let Some(output) = output {
            self.end_older(session, &reader, output);
        }
    }

    /// Returns the progress of a session's segments; `None` if its trace is not written into
    /// segments.
    pub fn segment_progress(&self, session: SessionId) -> Option<SegmentProgress> {
        let reader = self.reader(session)?;
        let reader = reader.lock();
        let has_older = reader.segments.as_ref()?.has_older;
        let counts = reader.framer.segment_counts();
        Some(SegmentProgress {
            bytes: reader.output.as_ref().map_or(0, TraceOutput::written_bytes),
            packets: counts.newer.packets,
            older: has_older.then(|| OlderSegment {
                sequences: reader.framer.sequences_in_older().count(),
                packets: counts.older.packets,
            }),
        })
    }

    /// Makes the next pass collect finished packets from chunks that threads still fill.
    pub fn collect_before_next_write(&self, session: SessionId) {
        self.look_at(session, |session, _| session.scrape_before_next_write());
    }

    /// Returns true if a sequence in the older segment has packets that are not finished, or not
    /// read.
    pub fn has_unfinished_in_older(&self, session: SessionId) -> bool {
        let Some(reader) = self.reader(session) else {
            return false;
        };
        let mut reader = reader.lock();
        let totals = self.totals(session, &mut reader);
        let in_older: HashSet<u32> = reader.framer.sequences_in_older().collect();
        let mut accounts = totals.sequences.iter();
        accounts.any(|account| {
            account.in_flight + account.buffered > 0
                && account.sequence_id.is_some_and(|id| in_older.contains(&id))
        })
    }

    /// Ends the older segment, whose file is `output`. Does not lock the reader while it writes.
    pub(super) fn end_older(
        &self,
        session: SessionId,
        reader: &Mutex<TraceReader>,
        mut output: TraceOutput,
    ) {
        let (stats, counts) = {
            let mut reader = reader.lock();
            let stats = self.end_older_accounts(session, &mut reader);
            let counts = reader.framer.segment_counts().older;
            reader.framer.end_segment();
            (stats.unwrap_or_default(), counts)
        };
        let packet = self.look_at(session, |session, context| {
            session.stats_packet(context.environment, &stats)
        });
        let (kind, written) = match output.write(&packet.unwrap_or_default()) {
            Ok(()) => (BoundaryKind::END, Ok(())),
            Err(error) => error.cause.into_end(),
        };
        let end = output.write_end(&self.recording_end(session, kind));
        // A file that cannot be synced is reported with the newest one.
        let _ = self.close_segment(reader, output, stats.sequences, counts, written.and(end));
    }

    /// Closes the newest segment of a session that has ended. `outcome` is that of writing it.
    pub(super) fn end_newest(
        &self,
        session: SessionId,
        reader: &Mutex<TraceReader>,
        output: TraceOutput,
        outcome: io::Result<()>,
    ) -> io::Result<()> {
        let (stats, counts) = {
            let mut reader = reader.lock();
            let totals = self.totals(session, &mut reader);
            let stats = reader.segments.as_ref().map(|it| it.newest(&totals));
            (
                stats.unwrap_or_default(),
                reader.framer.segment_counts().newer,
            )
        };
        let closed = self.close_segment(reader, output, stats.sequences, counts, Ok(()));
        outcome.and(closed)
    }

    /// Closes the file of a segment, and tells the store. Returns the outcome of closing it.
    fn close_segment(
        &self,
        reader: &Mutex<TraceReader>,
        output: TraceOutput,
        sequences: Vec<SequenceAccount>,
        counts: ReadCounts,
        outcome: io::Result<()>,
    ) -> io::Result<()> {
        let bytes = output.written_bytes();
        if let Some(segments) = &mut reader.lock().segments {
            segments.ended_bytes += bytes;
        }
        let store = output.store().map(Arc::clone);
        let closed = output.close();
        if let Some(store) = store {
            store.segment_ended(EndedSegment {
                bytes,
                counts,
                sequences,
                outcome,
            });
        }
        closed
    }

    /// Returns the statistics of the older segment, up to its end.
    fn end_older_accounts(
        &self,
        session: SessionId,
        reader: &mut TraceReader,
    ) -> Option<TraceStats> {
        if let Some(stats) = reader.segments.as_mut()?.older_stats.take() {
            return Some(stats);
        }
        self.note_moved(session, reader);
        let totals = self.totals(session, reader);
        reader.end_older_accounts(&totals)
    }

    /// Notes the accounts of sequences that have left the older segment.
    pub(super) fn note_moved(&self, session: SessionId, reader: &mut TraceReader) {
        if reader.segments.is_none() {
            return;
        }
        let moved = reader.framer.take_moved();
        if moved.is_empty() {
            return;
        }
        let totals = self.totals(session, reader);
        if let Some(segments) = &mut reader.segments {
            segments.note_left(&totals, &moved);
        }
    }

    fn totals(&self, session: SessionId, reader: &mut TraceReader) -> TraceStats {
        let totals = self.look(|control| {
            let session = control.sessions.get(&session)?;
            Some(control.trace_stats(session, reader))
        });
        totals.unwrap_or_default()
    }
}

impl TraceReader {
    /// Returns the statistics of the older segment, which end with these totals.
    fn end_older_accounts(&mut self, totals: &TraceStats) -> Option<TraceStats> {
        let in_older: HashSet<u32> = self.framer.sequences_in_older().collect();
        let is_in_older = |id: Option<u32>| id.is_none_or(|id| in_older.contains(&id));
        Some(self.segments.as_mut()?.end_older(totals, is_in_older))
    }

    /// Returns the statistics to be written into the newest segment, if any: `totals` are those of
    /// the session, and `is_last` is true at its end. They wait while the accounts of the older
    /// segment are open.
    pub(super) fn stats_to_write(
        &mut self,
        totals: TraceStats,
        is_last: bool,
    ) -> Option<TraceStats> {
        let Some(segments) = &mut self.segments else {
            return Some(totals);
        };
        if segments.has_older {
            if !is_last {
                return None;
            }
            segments.note_left(&totals, &self.framer.take_moved());
            let stats = self.end_older_accounts(&totals);
            self.segments.as_mut()?.older_stats = stats;
        }
        Some(self.segments.as_ref()?.newest(&totals))
    }
}
