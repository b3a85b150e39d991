//! Streaming: writing the trace of a session into a file while it is recording.

use std::io;

use parking_lot::Mutex;

use super::calls::CallWait;
use super::file_end::FileEnd;
use super::packet_framer::Framed;
use super::service::Service;
use super::trace_output::{TraceOutput, WriteError, WriteErrorCause, WrittenPart};
use super::trace_reader::{Batch, Extent, Pass, TraceReader};
use super::tracing_session::FileOutput;
use tracezero_core::ids::SessionId;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

/// The progress of a session's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileProgress {
    /// More packets will be written.
    Open,
    /// The file is closed, because the session has ended or the file has reached its limit.
    Closed,
}

/// The files that a session writes into.
struct Outputs {
    newer: TraceOutput,
    /// The file of the older segment, while there is one.
    older: Option<TraceOutput>,
}

/// An error: some packets of a batch are in no file.
struct PassError {
    /// The number of bytes of the batch that are in each file.
    written: Framed<usize>,
    cause: WriteErrorCause,
}

impl From<io::Error> for PassError {
    fn from(error: io::Error) -> Self {
        Self {
            written: Framed::default(),
            cause: WriteErrorCause::Failed(error),
        }
    }
}

impl Outputs {
    fn begin_pass(&mut self) -> io::Result<()> {
        self.older
            .as_mut()
            .map_or(Ok(()), TraceOutput::begin_pass)?;
        self.newer.begin_pass()
    }

    fn end_pass(&mut self) -> io::Result<()> {
        self.older.as_mut().map_or(Ok(()), TraceOutput::end_pass)?;
        self.newer.end_pass()
    }

    /// Writes each part of a batch into its file.
    fn write(&mut self, batch: &Batch) -> Result<(), PassError> {
        let mut written = Framed::default();
        if let Some(older) = &mut self.older {
            written.older = batch.older.len();
            older.write(&batch.older).map_err(|error| PassError {
                written: Framed {
                    older: error.written,
                    newer: 0,
                },
                cause: error.cause,
            })?;
        }
        self.write_rest(batch, written)
    }

    /// Writes what is left for the newest file after an error.
    fn write_rest(&mut self, batch: &Batch, written: Framed<usize>) -> Result<(), PassError> {
        let rest = &batch.newer[written.newer..];
        let outcome = match self.newer.write(rest) {
            // The older file has ended before all packets for it were written.
            Ok(()) if written.older < batch.older.len() => Err(WriteError {
                written: rest.len(),
                cause: WriteErrorCause::Full,
            }),
            outcome => outcome,
        };
        outcome.map_err(|error| PassError {
            written: Framed {
                newer: written.newer + error.written,
                ..written
            },
            cause: error.cause,
        })
    }
}

impl PassError {
    /// Returns true if there is no room for more segments. The session goes on, without the packets
    /// for which there is no room.
    fn is_store_full(&self, output: &TraceOutput) -> bool {
        matches!(self.cause, WriteErrorCause::Full) && output.store().is_some()
    }
}

impl Service {
    /// Gives a session the file to write into.
    pub fn attach_output(&self, session: SessionId, output: TraceOutput) {
        if let Some(reader) = self.reader(session) {
            reader.lock().attach_output(output);
        }
    }

    /// Returns true if a session has a file that is not complete. Unlike
    /// [`writes_into_file`](Self::writes_into_file), this also holds for a clone with a file.
    pub fn has_output(&self, session: SessionId) -> bool {
        self.reader(session)
            .is_some_and(|reader| reader.lock().output.is_some())
    }

    /// Writes the contents of a session's buffers into its file. Closes the file if the session has
    /// ended. If the file has reached its limit, closes it and ends the session.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails. Then the file is closed and the session ends.
    pub fn write_into_file(&self, session: SessionId) -> io::Result<FileProgress> {
        let Some(reader) = self.reader(session) else {
            return Ok(FileProgress::Closed);
        };
        // Nobody else writes these files while this thread has the outputs.
        let outputs = {
            let mut reader = reader.lock();
            let older = reader.older_output.take();
            reader.output.take().map(|newer| Outputs { newer, older })
        };
        let Some(mut outputs) = outputs else {
            return Ok(FileProgress::Closed);
        };
        // Check this before reading: if the session ends during this pass, its last packets need
        // another pass.
        let is_over = !self.is_live(session);
        let extent = if is_over {
            Extent::Everything
        } else {
            // Leave packets that come meanwhile to the next pass, because other buffers wait. The
            // commits of these packets wake the reader.
            Extent::WhatIsThere
        };
        let outcome = self.write_pass(session, &reader, &mut outputs, extent);
        let parts = match &outcome {
            Ok(()) => self.parts_for_clones(session, &outputs.newer),
            Err(_) => Vec::new(),
        };
        self.note_moved(session, &mut reader.lock());
        let mut locked = reader.lock();
        locked.note_written_bytes(&outputs.newer, outputs.older.as_ref());
        if !parts.is_empty() {
            self.look(|control| control.clone_with_file(session, &locked, parts));
        }
        if outcome.is_ok() && !is_over {
            locked.output = Some(outputs.newer);
            locked.older_output = outputs.older;
            drop(locked);
            // Do not wait for calls that another thread is making. Such a call may be waiting for
            // room in a buffer, and so for this thread.
            self.call_after(CallWait::LeaveCalls, |_| ());
            return Ok(FileProgress::Open);
        }
        drop(locked);
        let Outputs { newer, older } = outputs;
        if let Some(older) = older {
            self.end_older(session, &reader, older);
        }
        let mut output = newer;
        let outcome = self.end_file(session, &reader, &mut output, outcome);
        let mut locked = reader.lock();
        locked.note_written_bytes(&output, None);
        let buffers = locked.buffers().to_vec();
        drop(locked);
        let reason = outcome.as_ref().err().map(ToString::to_string);
        // End the session first: packets that are written from now on are lost.
        self.look(|control| control.file_is_closed(session, reason));
        // Do not let writers wait for a reader that will not come.
        for buffer in buffers {
            buffer.reader_is_gone();
        }
        self.call_after(CallWait::LeaveCalls, |_| ());
        if output.store().is_some() {
            return self
                .end_newest(session, &reader, output, outcome)
                .map(|()| FileProgress::Closed);
        }
        outcome?;
        output.close().map(|()| FileProgress::Closed)
    }

    /// Returns the present contents of the file for each clone that waits for them. Locks nothing
    /// meanwhile: a disk may be slow.
    fn parts_for_clones(
        &self,
        session: SessionId,
        output: &TraceOutput,
    ) -> Vec<io::Result<WrittenPart>> {
        let waiting = self.look(|control| control.clones_that_wait_for_file_of(session));
        (0..waiting).map(|_| output.written_part()).collect()
    }

    /// Writes the packet that ends the trace. Does not lock the reader while it writes, as in
    /// [`write_pass`](Self::write_pass).
    fn end_file(
        &self,
        session: SessionId,
        reader: &Mutex<TraceReader>,
        output: &mut TraceOutput,
        outcome: Result<(), PassError>,
    ) -> io::Result<()> {
        let end = |kind| self.recording_end(session, kind);
        let Err(PassError { written, cause }) = outcome else {
            return output.write_end(&end(BoundaryKind::END));
        };
        match cause {
            WriteErrorCause::Full => {
                reader.lock().file_ended_early(FileEnd::Full, &written);
                output.write_end(&end(BoundaryKind::END_FILE_FULL))
            }
            WriteErrorCause::Failed(error) => {
                reader.lock().file_ended_early(FileEnd::Failed, &written);
                // If there is no room for the packet, the file ends without it.
                let _ = output.write_end(&end(BoundaryKind::END_WRITE_FAILED));
                Err(error)
            }
        }
    }

    /// Does not lock the reader while it writes: a disk may be slow, and others ask for statistics.
    fn write_pass(
        &self,
        session: SessionId,
        reader: &Mutex<TraceReader>,
        outputs: &mut Outputs,
        extent: Extent,
    ) -> Result<(), PassError> {
        outputs.begin_pass()?;
        let is_wanted = reader
            .lock()
            .buffers()
            .iter()
            .any(|buffer| buffer.wants_scrape());
        let scrape = self.look_at(session, |session, context| {
            session.scrape_for_file(context, is_wanted)
        });
        if let Some(scrape) = scrape.flatten() {
            scrape.run_while_read();
        }
        let segment_bytes = reader.lock().segments.as_ref().map(|it| it.segment_bytes);
        let is_due = |outputs: &Outputs| {
            let bytes = outputs.newer.written_bytes();
            segment_bytes.is_some_and(|segment_bytes| bytes >= segment_bytes)
        };
        let was_due = is_due(outputs);
        let mut pass = Pass::new(extent);
        loop {
            if extent == Extent::WhatIsThere && !was_due && is_due(outputs) {
                // The owner begins another segment now, if it can, and then goes on.
                break;
            }
            let batch = self.next_batch(session, &mut reader.lock(), &mut pass);
            let Some(batch) = batch else {
                break;
            };
            let mut outcome = outputs.write(&batch);
            if let Err(error) = &mut outcome
                && error.is_store_full(&outputs.newer)
                && let Some(older) = outputs.older.take()
            {
                // Once the older segment has ended, the store can remove it.
                self.end_older(session, reader, older);
                outcome = outputs.write_rest(&batch, error.written);
            }
            let mut reader = reader.lock();
            match outcome {
                Ok(()) => reader.batch_was_taken(batch),
                Err(error) if error.is_store_full(&outputs.newer) => {
                    reader.batch_was_refused(batch);
                    reader.leave_out_rest(&error.written);
                    reader.batch_was_taken(Batch::default());
                }
                Err(error) => {
                    reader.batch_was_refused(batch);
                    return Err(error);
                }
            }
        }
        Ok(outputs.end_pass()?)
    }

    /// Returns whether a session writes, or wrote, its trace into a file.
    pub fn writes_into_file(&self, session: SessionId) -> bool {
        self.look_at(session, |session, _| session.file != FileOutput::None)
            .unwrap_or(false)
    }

    /// Returns the size of a session's file in bytes, and the reason if the file ends before the
    /// trace.
    pub fn file_size(&self, session: SessionId) -> (u64, Option<FileEnd>) {
        self.reader(session).map_or((0, None), |reader| {
            let reader = reader.lock();
            (reader.written_bytes, reader.file_end)
        })
    }
}
