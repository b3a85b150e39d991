//! A session's trace on its way into a file.

use std::io;

use super::Service;
use super::trace_output::{Refused, TraceOutput};
use super::trace_reader::{Extent, TraceReader};
use crate::ids::SessionId;

/// How far the file of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    GoesOn,
    /// The session is over, or the file has reached its limit: it is closed.
    Closed,
}

impl Service {
    /// Gives a session the file that it writes into.
    pub(crate) fn attach_output(&self, session: SessionId, output: TraceOutput) {
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
    pub(crate) fn write_into_file(&self, session: SessionId) -> io::Result<Writing> {
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
            self.make_calls();
            return Ok(Writing::GoesOn);
        }
        if let Err(Refused::Full { written }) = outcome {
            reader.file_became_full(written);
        }
        let buffers = reader.buffers().to_vec();
        drop(reader);
        let reason = match &outcome {
            Err(Refused::Failed(error)) => Some(error.to_string()),
            Ok(()) | Err(Refused::Full { .. }) => None,
        };
        // First of all: what is still written is lost.
        self.with(|control| control.file_is_closed(session, reason));
        // Whoever waits for the reader waits in vain.
        for buffer in buffers {
            buffer.reader_is_gone();
        }
        match outcome {
            Ok(()) | Err(Refused::Full { .. }) => output.close().map(|()| Writing::Closed),
            Err(Refused::Failed(error)) => Err(error),
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
        if reader.buffers().iter().any(|buffer| buffer.wants_scrape()) {
            self.look(|control| control.scrape(session));
        }
        reader.read_all(self, session, extent, |batch| output.write(batch))?;
        Ok(output.end_pass()?)
    }

    /// Whether a session writes, or wrote, its trace into a file.
    pub(crate) fn writes_into_file(&self, session: SessionId) -> bool {
        self.look(|control| {
            let session = control.sessions.get(&session);
            session.is_some_and(|session| session.writes_into_file)
        })
    }

    /// Bytes in the file of a session, and whether there was more than it may hold.
    pub(crate) fn file_size(&self, session: SessionId) -> (u64, bool) {
        self.reader(session).map_or((0, false), |reader| {
            let reader = reader.lock();
            (reader.written_bytes, reader.file_is_full)
        })
    }
}
