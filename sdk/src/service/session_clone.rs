//! Snapshots: a session's buffers are copied, or handed over, into a new session that can only be
//! read, while the source goes on.

use std::sync::Arc;

use super::central_buffer::{CentralBuffer, TakenBuffer};
use super::control::Control;
use super::flush::{FlushOutcome, FlushThen};
use super::lifecycle::random_uuid;
use super::lifecycle_events::{Event, LifecycleEvents};
use super::sequence_account::Writers;
use super::trace_output::TraceOutput;
use super::trace_reader::TraceReader;
use super::tracing_session::{SessionOwner, State, TracingSession};
use super::triggers::ReceivedTrigger;
use crate::coordination::{FlushFlags, FlushReason};
use crate::error::{Error, Refusal};
use crate::ids::SessionId;

/// A clone that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CloneId(u64);

/// Who wants a snapshot of what.
pub(crate) struct CloneRequest {
    pub(crate) source: CloneSource,
    pub(crate) uid: u32,
    pub(crate) owner: Arc<dyn SessionOwner>,
    /// Where the snapshot is written to; `None` if it is to be read.
    pub(crate) output: Option<TraceOutput>,
    /// The trigger that asked for it.
    pub(crate) trigger: Option<ReceivedTrigger>,
    /// Told of the new session, or why there is none.
    pub(crate) done: CloneDone,
}

impl CloneRequest {
    /// Called without a lock, since the owner is dropped here as well.
    fn finish(self, outcome: Result<SessionId, Error>) {
        (self.done)(outcome);
    }
}

pub(crate) type CloneDone = Box<dyn FnOnce(Result<SessionId, Error>) + Send>;

/// The session to take a snapshot of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CloneSource {
    Id(SessionId),
    /// By its unique name.
    Name(String),
}

/// A clone whose buffers are being flushed.
pub(super) struct PendingClone {
    source: SessionId,
    request: CloneRequest,
    started_ns: u64,
    /// By position in the configuration; `None` until its group was flushed.
    buffers: Vec<Option<(TakenBuffer, Writers)>>,
    /// Buffers that wait for the same flush, group by group.
    groups: Vec<Vec<usize>>,
    events: LifecycleEvents,
    outcome: FlushOutcome,
}

impl Control {
    /// Begins a snapshot; `request.done` is called when it is there, or cannot be.
    pub(super) fn clone_session(&mut self, request: CloneRequest) {
        let found = self
            .sessions
            .iter()
            .find(|(id, session)| match &request.source {
                CloneSource::Id(wanted) => *id == wanted,
                CloneSource::Name(name) => {
                    session.state != State::ClonedReadOnly
                        && session.recording.config.unique_session_name.as_ref() == Some(name)
                }
            });
        let Some((&source, session)) = found else {
            return self.refuse_clone(request, Refusal::NoSuchSession);
        };
        if !session.is_visible_to(request.uid) {
            return self.refuse_clone(request, Refusal::SessionOfAnotherUser);
        }
        let configs = &session.recording.config.buffers;
        for (buffer, config) in session.buffers.iter().zip(configs) {
            let holds_data = buffer.with(|buffer| buffer.stats().bytes_written > 0);
            if config.clear_before_clone
                && holds_data
                && let Err(error) = buffer.take()
            {
                let reason = error.to_string();
                return self.refuse_clone(request, Refusal::CloneFailed { reason });
            }
        }
        let of_kind = |transferred: bool| -> Vec<usize> {
            (0..configs.len())
                .filter(|&index| configs[index].transfer_on_clone == transferred)
                .collect()
        };
        let groups: Vec<Vec<usize>> = [of_kind(true), of_kind(false)]
            .into_iter()
            .filter(|group| !group.is_empty())
            .collect();
        self.last_clone += 1;
        let id = CloneId(self.last_clone);
        let pending = PendingClone {
            source,
            request,
            started_ns: self.environment.now_ns(),
            buffers: configs.iter().map(|_| None).collect(),
            groups: groups.clone(),
            events: LifecycleEvents::default(),
            outcome: FlushOutcome::Succeeded,
        };
        self.clones.insert(id, pending);
        if groups.is_empty() {
            return self.finish_clone(id);
        }
        let flags = FlushFlags::by_service(FlushReason::TraceClone);
        for group in groups {
            self.flush(
                source,
                0,
                flags,
                Some(&group),
                FlushThen::Clone(id, group.clone()),
            );
        }
    }

    fn refuse_clone(&mut self, request: CloneRequest, refusal: Refusal) {
        self.calls.note(move || request.finish(Err(refusal.into())));
    }

    /// A group of buffers was flushed, as well as it went: they are taken as they are now.
    pub(super) fn clone_flushed(&mut self, id: CloneId, group: &[usize], outcome: FlushOutcome) {
        let Some(mut pending) = self.clones.remove(&id) else {
            return;
        };
        let Some(session) = self.sessions.get(&pending.source) else {
            return self.refuse_clone(pending.request, Refusal::SessionEnded);
        };
        if outcome == FlushOutcome::Failed {
            pending.outcome = outcome;
        }
        for &index in group {
            let buffer = &session.buffers[index];
            let taken = if session.recording.config.buffers[index].transfer_on_clone {
                buffer.take()
            } else {
                buffer.copy()
            };
            match taken {
                // Writers after their buffer: see `SequenceAccount`.
                Ok(taken) => pending.buffers[index] = Some((taken, self.writers_of(buffer))),
                Err(error) => {
                    let reason = error.to_string();
                    return self.refuse_clone(pending.request, Refusal::CloneFailed { reason });
                }
            }
            let event = Event::BufferCloned(index as u32);
            pending.events.note(self.environment.now_ns(), event);
        }
        pending.groups.retain(|waiting| waiting != group);
        let is_complete = pending.groups.is_empty();
        self.clones.insert(id, pending);
        if is_complete {
            self.finish_clone(id);
        }
    }

    /// Makes the session that holds the snapshot.
    fn finish_clone(&mut self, id: CloneId) {
        let Some(pending) = self.clones.remove(&id) else {
            return;
        };
        let mut buffers: Vec<Arc<CentralBuffer>> = Vec::new();
        for (taken, writers) in pending.buffers.into_iter().flatten() {
            let Some(id) = self.next_buffer_id(&buffers) else {
                let request = pending.request;
                return self
                    .calls
                    .note(move || request.finish(Err(Error::TooManyBuffers)));
            };
            buffers.push(Arc::new(CentralBuffer::of_snapshot(id, taken, writers)));
        }
        let now_ns = self.environment.now_ns();
        let (new_msb, _) = random_uuid(|| self.environment.random_bits());
        self.last_session.0 += 1;
        let clone_id = self.last_session;
        let Some(source) = self.sessions.get_mut(&pending.source) else {
            return self.refuse_clone(pending.request, Refusal::SessionEnded);
        };
        let request = pending.request;
        let reader = TraceReader::new(buffers.clone(), &source.recording.config, request.output);
        let mut clone = TracingSession::new(
            request.uid,
            Arc::clone(&source.recording),
            request.owner,
            buffers,
            // Snapshots of one session share the lower half.
            (new_msb, source.uuid.1),
            reader,
        );
        clone.state = State::ClonedReadOnly;
        clone.copy_history(source);
        clone.received_triggers = std::mem::take(&mut source.received_triggers);
        clone.was_triggered = true;
        clone.clone_trigger = request.trigger;
        clone.final_flush = Some(pending.outcome);
        clone.stats_are_due = true;
        clone.events.note(pending.started_ns, Event::CloneStarted);
        clone.events.append(pending.events);
        clone.events.note(now_ns, Event::TracingDisabled);
        self.sessions.insert(clone_id, clone);
        let done = request.done;
        self.calls.note(move || done(Ok(clone_id)));
    }

    /// The session that clones are being made of is freed.
    pub(super) fn fail_clones_of(&mut self, source: SessionId) {
        let failed: Vec<CloneId> = self
            .clones
            .iter()
            .filter(|(_, pending)| pending.source == source)
            .map(|(id, _)| *id)
            .collect();
        for id in failed {
            if let Some(pending) = self.clones.remove(&id) {
                self.refuse_clone(pending.request, Refusal::SessionEnded);
            }
        }
    }
}
