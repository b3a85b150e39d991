//! A session's trace on its way into a file.

use std::io;

use super::calls::Patience;
use super::service::Service;
use super::trace_output::{RefusalCause, Refused, TraceOutput};
use super::trace_reader::{Extent, FileEnd, TraceReader};
use super::tracing_session::FileOutput;
use tracezero_core::ids::SessionId;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

/// How far the file of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// More is to come.
    GoesOn,
    /// The session is over, or the file has reached its limit: it is closed.
    Closed,
}

impl Service {
    /// Gives a session the file that it writes into.
    pub fn attach_output(&self, session: SessionId, output: TraceOutput) {
        if let Some(reader) = self.reader(session) {
            reader.lock().attach_output(output);
        }
    }

    /// Writes what is in the buffers of a session into its file. Closes the file if the session is
    /// over, or the file as large as it may be; then the session ends as well.
    ///
    /// # Errors
    ///
    /// Those of writing. The file is closed, and the session ends.
    pub fn write_into_file(&self, session: SessionId) -> io::Result<Writing> {
        let Some(reader) = self.reader(session) else {
            return Ok(Writing::Closed);
        };
        let mut reader = reader.lock();
        let Some(mut output) = reader.output.take() else {
            return Ok(Writing::Closed);
        };
        // Asked before reading: what comes into the buffers later is not read if it is over.
        let is_over = !self.is_live(session);
        let extent = if is_over {
            Extent::Everything
        } else {
            // What comes meanwhile has the next pass, and wakes its reader: other buffers wait.
            Extent::WhatIsThere
        };
        let outcome = self.write_pass(session, &mut reader, &mut output, extent);
        reader.written_bytes = output.written_bytes();
        if outcome.is_ok() {
            self.look(|control| control.clone_with_file(session, &reader, &output));
        }
        if outcome.is_ok() && !is_over {
            reader.output = Some(output);
            drop(reader);
            // Calls that another thread is in the middle of are not waited for: writers wait for this
            // thread, and one of them may be that callback.
            self.call_after(Patience::LeavesCalls, |_| ());
            return Ok(Writing::GoesOn);
        }
        let outcome = self.end_file(session, &mut reader, &mut output, outcome);
        reader.written_bytes = output.written_bytes();
        let buffers = reader.buffers().to_vec();
        drop(reader);
        let reason = outcome.as_ref().err().map(ToString::to_string);
        // First of all: what is still written is lost.
        self.look(|control| control.file_is_closed(session, reason));
        // Whoever waits for the reader waits in vain.
        for buffer in buffers {
            buffer.reader_is_gone();
        }
        self.call_after(Patience::LeavesCalls, |_| ());
        outcome?;
        output.close().map(|()| Writing::Closed)
    }

    /// Writes the last word into a file, behind what got into it.
    fn end_file(
        &self,
        session: SessionId,
        reader: &mut TraceReader,
        output: &mut TraceOutput,
        outcome: Result<(), Refused>,
    ) -> io::Result<()> {
        let end = |kind| self.recording_end(session, kind);
        let Err(Refused { written, cause }) = outcome else {
            return output.write_end(&end(BoundaryKind::END));
        };
        match cause {
            RefusalCause::Full => {
                reader.file_ended_early(FileEnd::Full, written);
                output.write_end(&end(BoundaryKind::END_FILE_FULL))
            }
            RefusalCause::Failed(error) => {
                reader.file_ended_early(FileEnd::Failed, written);
                // Where there is no room for it, the file ends without.
                let _ = output.write_end(&end(BoundaryKind::END_WRITE_FAILED));
                Err(error)
            }
        }
    }

    fn write_pass(
        &self,
        session: SessionId,
        reader: &mut TraceReader,
        output: &mut TraceOutput,
        extent: Extent,
    ) -> Result<(), Refused> {
        output.begin_pass()?;
        let is_wanted = reader.buffers().iter().any(|buffer| buffer.wants_scrape());
        self.look_at(session, |session, context| {
            session.scrape_for_file(context, is_wanted);
        });
        self.read_all(session, reader, extent, |batch| output.write(batch))?;
        Ok(output.end_pass()?)
    }

    /// Whether a session writes, or wrote, its trace into a file.
    pub fn writes_into_file(&self, session: SessionId) -> bool {
        self.look_at(session, |session, _| session.file != FileOutput::None)
            .unwrap_or(false)
    }

    /// Bytes in the file of a session, and why it ends before the trace, if it does.
    pub fn file_size(&self, session: SessionId) -> (u64, Option<FileEnd>) {
        self.reader(session).map_or((0, None), |reader| {
            let reader = reader.lock();
            (reader.written_bytes, reader.file_end)
        })
    }
}
