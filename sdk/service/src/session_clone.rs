//! Clones: the buffers of a session are copied or moved into a new session that can only be read,
//! while the source goes on.
//!
//! If the source writes into a file, the clone does too. The clone's file begins with the contents
//! of the source's file. The cloned buffers and the length of that file must be of the same moment.
//! So the thread that writes the source's file takes both, at the end of a pass and with the
//! source's reader locked. The contents of the file up to that length no longer change, so they are
//! copied later, by the owner of the clone.

use std::cmp::Reverse;
use std::io;
use std::sync::Arc;

use super::buffer_counts::AlreadyRead;
use super::central_buffer::{CentralBuffer, TakenBuffer};
use super::control::Control;
use super::error::{Refusal, SessionError};
use super::lifecycle_events::{Event, LifecycleEvents};
use super::packet_framer::PacketFramer;
use super::pending_clone::{CloneRequest, CloneSource, PendingClone};
use super::pending_flush::{CloneId, FlushOutcome, FlushThen};
use super::phase::{End, Phase};
use super::trace_buffer::TraceBuffer;
use super::trace_output::WrittenPart;
use super::trace_reader::TraceReader;
use super::tracing_session::{FileOutput, TracingSession};
use tracezero_core::coordination::{FlushFlags, FlushReason};
use tracezero_core::ids::SessionId;

const FILE_IS_CLOSED: &str = "its trace file is complete; copy the file";
const HAS_SEGMENTS: &str = "its trace is in segments; copy those";
const NEEDS_A_FILE: &str = "it writes into a file; clone it into a file, too";

impl Control {
    /// Begins a clone. Calls `request.done` when the clone exists or has failed.
    pub(super) fn clone_session(&mut self, mut request: CloneRequest) {
        let (source, groups) = match self.prepare_source(&mut request) {
            Ok(found) => found,
            Err(error) => return self.refuse_clone(request, error),
        };
        self.last_clone += 1;
        let id = CloneId(self.last_clone);
        let pending = PendingClone {
            source,
            request,
            started_ns: self.environment.now_ns(),
            buffers: groups.iter().flatten().map(|_| None).collect(),
            flushes_left: groups.len(),
            events: LifecycleEvents::default(),
            outcome: FlushOutcome::Succeeded,
        };
        if groups.is_empty() {
            return self.clone_is_flushed(id, pending);
        }
        self.clones.insert(id, pending);
        let flags = FlushFlags::by_service(FlushReason::TraceClone);
        for group in groups {
            self.with_session(source, |session, context| {
                let then = FlushThen::Clone(id, group.clone());
                session.flush(context, 0, flags, Some(&group), then);
            });
        }
    }

    /// Finds the session to clone, and empties those of its buffers that are to be cleared before a
    /// clone. Returns the session and two groups of positions of buffers: those to be moved into
    /// the clone, and those to be copied.
    fn prepare_source(
        &self,
        request: &mut CloneRequest,
    ) -> Result<(SessionId, Vec<Vec<usize>>), SessionError> {
        let found = self.find_source(&request.source, request.uid);
        let (source, session) = found.ok_or(Refusal::NoSuchSession)?;
        if !session.is_visible_to(request.uid) {
            return Err(Refusal::SessionOfAnotherUser.into());
        }
        self.check_buffer_sizes(&session.recording.config)?;
        if session.recording.segment_bytes.is_some() {
            return Err(clone_failed(&HAS_SEGMENTS).into());
        }
        match (&session.file, &request.output) {
            (FileOutput::None, _) => request.output = None,
            (FileOutput::Closed, _) => return Err(clone_failed(&FILE_IS_CLOSED).into()),
            (FileOutput::Open { .. }, None) => return Err(clone_failed(&NEEDS_A_FILE).into()),
            (FileOutput::Open { .. }, Some(_)) => {}
        }
        let configs = &session.recording.config.buffers;
        let cleared = session
            .buffers
            .iter()
            .zip(configs)
            .filter(|(buffer, config)| {
                config.clear_before_clone && buffer.with(|buffer| buffer.stats().bytes_written > 0)
            });
        for (buffer, successor) in successors_of(cleared.map(|(buffer, _)| buffer))? {
            // No trace has the contents, which are dropped here.
            buffer.take(successor, AlreadyRead::InAnotherTrace);
        }
        let (moved, copied): (Vec<usize>, Vec<usize>) =
            (0..configs.len()).partition(|&index| configs[index].transfer_on_clone);
        let groups = [moved, copied].into_iter();
        Ok((source, groups.filter(|group| !group.is_empty()).collect()))
    }

    fn find_source(&self, source: &CloneSource, uid: u32) -> Option<(SessionId, &TracingSession)> {
        let score = |session: &TracingSession| session.recording.config.bugreport_score;
        let mut sessions = self.sessions.iter();
        let found = match source {
            CloneSource::Id(wanted) => sessions.find(|(id, _)| *id == wanted),
            CloneSource::Name(name) => sessions.find(|(_, session)| {
                !session.is_snapshot()
                    && session.recording.config.unique_session_name.as_ref() == Some(name)
            }),
            CloneSource::BestForBugreport => sessions
                .filter(|(_, session)| session.is_live() && session.is_visible_to(uid))
                .filter(|(_, session)| score(session) > 0)
                .min_by_key(|(_, session)| Reverse(score(session))),
        };
        found.map(|(id, session)| (*id, session))
    }

    fn refuse_clone(&mut self, request: CloneRequest, error: impl Into<SessionError>) {
        let outcome = Err(error.into());
        self.calls.note(Box::new(move || request.finish(outcome)));
    }

    /// Continues a clone after a group of its buffers was flushed, whatever the outcome. Takes the
    /// buffers now, unless their session writes into a file.
    pub(super) fn clone_flushed(&mut self, id: CloneId, group: &[usize], outcome: FlushOutcome) {
        let Some(mut pending) = self.clones.remove(&id) else {
            return;
        };
        if outcome == FlushOutcome::Failed {
            pending.outcome = outcome;
        }
        if !pending.is_of_file()
            && let Err(refusal) = self.take_buffers(&mut pending, group)
        {
            return self.refuse_clone(pending.request, refusal);
        }
        pending.flushes_left -= 1;
        if pending.flushes_left == 0 {
            return self.clone_is_flushed(id, pending);
        }
        self.clones.insert(id, pending);
    }

    /// Copies or moves the buffers of a group. If memory runs out, no buffer of this group is
    /// moved, but groups that were moved before stay moved.
    fn take_buffers(&self, pending: &mut PendingClone, group: &[usize]) -> Result<(), Refusal> {
        let session = self
            .sessions
            .get(&pending.source)
            .ok_or(Refusal::SessionEnded)?;
        let is_moved = |index: &&usize| session.recording.config.buffers[**index].transfer_on_clone;
        let (moved, copied): (Vec<usize>, Vec<usize>) = group.iter().partition(is_moved);
        let mut taken: Vec<(usize, TakenBuffer)> = Vec::new();
        let successors = successors_of(moved.iter().map(|&index| &session.buffers[index]))?;
        let read = match pending.is_of_file() {
            true => AlreadyRead::InTrace,
            false => AlreadyRead::InAnotherTrace,
        };
        for index in copied {
            let copy = session.buffers[index].copy(read);
            taken.push((index, copy.map_err(|error| clone_failed(&error))?));
        }
        for (index, (buffer, successor)) in moved.into_iter().zip(successors) {
            taken.push((index, buffer.take(successor, read)));
        }
        // Read the counts of buffers before those of their writers: see `SequenceAccount`.
        let buffers = taken
            .iter()
            .map(|&(index, _)| Arc::clone(&session.buffers[index]));
        let writers = self.writers_of(&buffers.collect::<Vec<_>>());
        for ((index, taken), writers) in taken.into_iter().zip(writers) {
            pending.buffers[index] = Some((taken, writers));
            let event = Event::BufferCloned(index as u32);
            pending.events.note(self.environment.now_ns(), event);
        }
        Ok(())
    }

    /// Continues a clone whose last group of buffers was flushed.
    fn clone_is_flushed(&mut self, id: CloneId, pending: PendingClone) {
        if !pending.is_of_file() {
            return self.finish_clone(pending, PacketFramer::new());
        }
        let source = pending.source;
        match self.sessions.get(&source) {
            Some(session) if session.file == FileOutput::Closed => {
                self.refuse_clone(pending.request, clone_failed(&FILE_IS_CLOSED));
            }
            Some(_) => {
                self.clones.insert(id, pending);
                self.with_session(source, |session, context| session.ask_to_write(context));
            }
            None => self.refuse_clone(pending.request, Refusal::SessionEnded),
        }
    }

    /// Returns the number of clones that wait for the file of `source`.
    pub(super) fn clones_that_wait_for_file_of(&self, source: SessionId) -> usize {
        let clones = self.clones.values();
        clones.filter(|it| it.waits_for_file_of(source)).count()
    }

    /// Makes clones that wait for the file of `source`, each with one of the `parts` of the file. All
    /// packets that came until now are in the part or still in the buffers. Clones for which there is
    /// no part wait for the next pass over the file.
    pub(super) fn clone_with_file(
        &mut self,
        source: SessionId,
        reader: &TraceReader,
        parts: Vec<io::Result<WrittenPart>>,
    ) {
        let mut left = parts.len();
        let clones = self.take_clones(|clone| {
            let is_taken = left > 0 && clone.waits_for_file_of(source);
            left -= usize::from(is_taken);
            is_taken
        });
        for (mut pending, part) in clones.into_iter().zip(parts) {
            let all: Vec<usize> = (0..pending.buffers.len()).collect();
            // No buffer has been emptied if the file cannot be read.
            let part = part.map_err(|error| clone_failed(&error));
            match part.and_then(|part| self.take_buffers(&mut pending, &all).map(|()| part)) {
                Ok(part) => {
                    let output = pending.request.output.take();
                    pending.request.output = output.map(|output| output.starting_with(part));
                    // The clone's file continues the source's, so it uses the same sequence ids.
                    self.finish_clone(pending, reader.framer.fork());
                }
                Err(refusal) => self.refuse_clone(pending.request, refusal),
            }
        }
    }

    /// Creates the session of the clone.
    fn finish_clone(&mut self, pending: PendingClone, mut framer: PacketFramer) {
        let mut buffers: Vec<Arc<CentralBuffer>> = Vec::new();
        for (taken, writers) in pending.buffers.into_iter().flatten() {
            let Some(id) = self.next_buffer_id(&buffers) else {
                return self.refuse_clone(pending.request, SessionError::TooManyBuffers);
            };
            buffers.push(Arc::new(CentralBuffer::of_snapshot(id, taken, writers)));
        }
        let now_ns = self.environment.now_ns();
        let (new_msb, _) = self.environment.random_uuid();
        self.last_session = SessionId::new(self.last_session.value() + 1);
        let clone_id = self.last_session;
        let Some(source) = self.sessions.get_mut(&pending.source) else {
            return self.refuse_clone(pending.request, Refusal::SessionEnded);
        };
        let request = pending.request;
        framer.counts.invalid_packets = source.invalid_packets;
        let config = &source.recording.config;
        let reader = TraceReader::of_clone(buffers, config, framer, request.output);
        let mut clone = TracingSession::new(
            request.uid,
            Arc::clone(&source.recording),
            request.owner,
            // Clones of one session share the lower half of its UUID.
            (new_msb, source.uuid.1),
            reader,
        );
        clone.phase = Phase::ClonedReadOnly(request.trigger, End::after_flush(pending.outcome));
        clone.copy_history(source);
        clone.trace_attributes = Arc::clone(&source.trace_attributes);
        clone.received_triggers = std::mem::take(&mut source.received_triggers);
        clone.due.stats = true;
        clone.events.note(pending.started_ns, Event::CloneStarted);
        clone.events.append(pending.events);
        clone.events.note(now_ns, Event::TracingDisabled);
        self.sessions.insert(clone_id, clone);
        let done = request.done;
        self.calls.note(Box::new(move || done(Ok(clone_id))));
    }

    /// Fails the clones of a session that is being freed.
    pub(super) fn fail_clones_of(&mut self, source: SessionId) {
        for clone in self.take_clones(|clone| clone.source == source) {
            self.refuse_clone(clone.request, Refusal::SessionEnded);
        }
    }

    /// Fails the clones that wait for the file of a session, because that file is closed.
    pub(super) fn fail_clones_that_wait_for_file(&mut self, source: SessionId) {
        for clone in self.take_clones(|clone| clone.waits_for_file_of(source)) {
            self.refuse_clone(clone.request, clone_failed(&FILE_IS_CLOSED));
        }
    }

    fn take_clones(
        &mut self,
        mut is_taken: impl FnMut(&PendingClone) -> bool,
    ) -> Vec<PendingClone> {
        self.clones
            .extract(|_, clone| is_taken(clone))
            .into_iter()
            .map(|(_, clone)| clone)
            .collect()
    }
}

impl PendingClone {
    /// Returns true if the source writes into a file. Then the clone does too.
    fn is_of_file(&self) -> bool {
        self.request.output.is_some()
    }

    fn waits_for_file_of(&self, source: SessionId) -> bool {
        self.source == source && self.is_of_file() && self.flushes_left == 0
    }
}

/// Creates an empty successor for each buffer. Call this before the first buffer is emptied, so
/// that an error leaves all buffers as they are.
fn successors_of<'a>(
    buffers: impl Iterator<Item = &'a Arc<CentralBuffer>>,
) -> Result<Vec<(&'a CentralBuffer, TraceBuffer)>, Refusal> {
    let with_successor = |buffer: &'a Arc<CentralBuffer>| match buffer.empty_copy() {
        Ok(successor) => Ok((&**buffer, successor)),
        Err(error) => Err(clone_failed(&error)),
    };
    buffers.map(with_successor).collect()
}

fn clone_failed(error: &impl ToString) -> Refusal {
    Refusal::CloneFailed {
        reason: error.to_string(),
    }
}
