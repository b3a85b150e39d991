//! The consumer of a session, as the service sees it: turns the service's calls into replies. It
//! stays with its session while the session is detached.

use std::sync::Arc;

use parking_lot::Mutex;
use tracezero_core::ids::SessionId;
use tracezero_ipc::consumer_port::events::{
    InstanceChange, ObservedEvent, ObservedEvents, observed, observed_instances,
};
use tracezero_ipc::consumer_port::replies::tracing_disabled;
use tracezero_service::{ReceivedTrigger, Service, SessionOwner};

use crate::file_waker::FileWaker;
use crate::outgoing::{Noted, Outgoing};

/// The consumer of a session.
pub(crate) struct RemoteConsumer {
    noted: Arc<Noted>,
    state: Mutex<State>,
}

struct State {
    connection: Connection,
    session: Option<SessionId>,
    /// True while the service makes a clone that will be the consumer's session.
    awaits_clone: bool,
    /// The request that is answered when the session has ended.
    enable_request: Option<u64>,
    /// The request for events, and the kinds of events.
    observing: Option<(u64, ObservedEvents)>,
    file: File,
    /// `Some` once the session has ended. The inner value is the reason, if the session ended
    /// without being asked to.
    ended: Option<Option<String>>,
}

enum Connection {
    Open(Arc<Outgoing>),
    /// The session is detached.
    Detached,
    /// The connection is gone, and the session with it.
    Closed,
}

/// The file of a session.
enum File {
    None,
    Open(Arc<FileWaker>),
    Closed,
}

impl RemoteConsumer {
    pub(crate) fn new(outgoing: Arc<Outgoing>, noted: Arc<Noted>) -> Self {
        Self {
            noted,
            state: Mutex::new(State {
                connection: Connection::Open(outgoing),
                session: None,
                awaits_clone: false,
                enable_request: None,
                observing: None,
                file: File::None,
                ended: None,
            }),
        }
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        self.state.lock().session
    }

    /// Returns true if the consumer has a session, or will have the clone that it has asked for.
    pub(crate) fn is_taken(&self) -> bool {
        let state = self.state.lock();
        state.session.is_some() || state.awaits_clone
    }

    /// Prepares for a clone, which [`set_session`](Self::set_session) gives to this consumer.
    pub(crate) fn expect_clone(&self) {
        self.state.lock().awaits_clone = true;
    }

    /// Takes back [`expect_clone`](Self::expect_clone): there is no clone.
    pub(crate) fn expect_no_clone(&self) {
        self.state.lock().awaits_clone = false;
    }

    /// Prepares for a session, which may end before [`set_session`](Self::set_session) is called.
    pub(crate) fn expect_session(&self, enable_request: u64, file: Option<Arc<FileWaker>>) {
        let mut state = self.state.lock();
        // The former session was freed. The thread that writes its file need not have ended.
        if let (Connection::Open(outgoing), Some(former)) =
            (&state.connection, state.enable_request)
        {
            outgoing.reply(former, Some(&tracing_disabled(None)));
        }
        state.enable_request = Some(enable_request);
        state.file = file.map_or(File::None, File::Open);
        state.ended = None;
    }

    /// Takes back [`expect_session`](Self::expect_session): there is no session.
    pub(crate) fn expect_no_session(&self) {
        let mut state = self.state.lock();
        state.enable_request = None;
        state.file = File::None;
    }

    /// Gives the consumer its session. Returns false if the connection is gone, so that nobody wants
    /// the session.
    #[must_use]
    pub(crate) fn set_session(&self, session: SessionId) -> bool {
        let mut state = self.state.lock();
        state.session = Some(session);
        state.awaits_clone = false;
        !matches!(state.connection, Connection::Closed)
    }

    /// Takes the session away, to be freed. Then it [ends](SessionOwner::disabled), which wakes the
    /// thread that writes its file.
    pub(crate) fn take_session(&self) -> Option<SessionId> {
        self.state.lock().session.take()
    }

    /// Notes that the connection is gone. Returns its session, to be freed.
    pub(crate) fn close(&self) -> Option<SessionId> {
        let mut state = self.state.lock();
        state.connection = Connection::Closed;
        state.session.take()
    }

    /// Separates the session from its connection.
    pub(crate) fn detach(&self) {
        let mut state = self.state.lock();
        state.connection = Connection::Detached;
        state.enable_request = None;
        state.observing = None;
        self.note_if_over(&state);
    }

    /// Gives a detached session to a connection.
    pub(crate) fn attach(&self, outgoing: Arc<Outgoing>) {
        self.state.lock().connection = Connection::Open(outgoing);
    }

    /// Takes a request that is answered when the session has ended, which may be now.
    pub(crate) fn await_end(&self, request_id: u64) {
        let mut state = self.state.lock();
        state.enable_request = Some(request_id);
        self.answer_if_over(&mut state);
    }

    /// Takes a request for events, and ends the earlier one.
    pub(crate) fn observe(&self, request_id: u64, events: ObservedEvents, service: &Service) {
        let mut state = self.state.lock();
        let Connection::Open(outgoing) = &state.connection else {
            return;
        };
        if let Some((former, _)) = state.observing {
            outgoing.reply(former, Some(&[]));
        }
        if events.is_empty() {
            outgoing.reply(request_id, Some(&[]));
            state.observing = None;
            return;
        }
        // Holds the lock, so that no later event is sent before these.
        let session = state.session;
        if events.instances
            && let Some(session) = session
        {
            let instances = service.instances(session);
            let changes: Vec<_> = instances
                .iter()
                .map(|instance| InstanceChange {
                    producer_name: &instance.producer_name,
                    data_source_name: &instance.data_source,
                    is_started: instance.is_started,
                })
                .collect();
            observed_instances(&changes, |reply| {
                outgoing.reply_and_go_on(request_id, reply);
            });
        }
        if events.all_started && session.is_some_and(|session| service.all_started(session)) {
            outgoing.reply_and_go_on(request_id, &observed(&ObservedEvent::AllStarted));
        }
        state.observing = Some((request_id, events));
    }

    /// Notes that a file is complete, or why it is not. Does nothing if the file belongs to an
    /// earlier session, which was freed.
    pub(crate) fn file_is_closed(&self, waker: &Arc<FileWaker>, outcome: Result<(), String>) {
        let mut state = self.state.lock();
        if matches!(&state.file, File::Open(own) if Arc::ptr_eq(own, waker)) {
            state.file = File::Closed;
            // The session may have ended as planned before the last packets were written.
            if let (Some(reason @ None), Err(failure)) = (&mut state.ended, outcome) {
                *reason = Some(failure);
            }
            self.answer_if_over(&mut state);
        }
    }

    /// Answers the request that waits for the end, if the session has ended and its file is complete.
    fn answer_if_over(&self, state: &mut State) {
        let (Some(reason), false) = (&state.ended, matches!(state.file, File::Open(_))) else {
            return;
        };
        if let (Connection::Open(outgoing), Some(request_id)) =
            (&state.connection, state.enable_request)
        {
            outgoing.reply(request_id, Some(&tracing_disabled(reason.as_deref())));
            state.enable_request = None;
        }
        self.note_if_over(state);
    }

    /// Asks the event loop to free a detached session that has ended.
    fn note_if_over(&self, state: &State) {
        if let (Connection::Detached, Some(_), Some(session)) =
            (&state.connection, &state.ended, state.session)
            && !matches!(state.file, File::Open(_))
        {
            self.noted.note_ended(session);
        }
    }

    fn send_event(&self, is_wanted: impl Fn(ObservedEvents) -> bool, event: &ObservedEvent<'_>) {
        let state = self.state.lock();
        if let (Connection::Open(outgoing), Some((request_id, events))) =
            (&state.connection, state.observing)
            && is_wanted(events)
        {
            outgoing.reply_and_go_on(request_id, &observed(event));
        }
    }
}

impl SessionOwner for RemoteConsumer {
    fn write_into_file(&self) {
        if let File::Open(waker) = &self.state.lock().file {
            waker.wake();
        }
    }

    fn disabled(&self, reason: Option<&str>) {
        let mut state = self.state.lock();
        state.ended = Some(reason.map(str::to_owned));
        if let File::Open(waker) = &state.file {
            waker.wake();
        }
        self.answer_if_over(&mut state);
    }

    fn all_data_sources_started(&self) {
        self.send_event(|events| events.all_started, &ObservedEvent::AllStarted);
    }

    fn data_source_changed(&self, producer_name: &str, data_source: &str, is_started: bool) {
        let change = ObservedEvent::Instance(InstanceChange {
            producer_name,
            data_source_name: data_source,
            is_started,
        });
        self.send_event(|events| events.instances, &change);
    }

    fn clone_triggered(&self, trigger: &ReceivedTrigger) {
        let Some(session) = self.session() else {
            return;
        };
        let event = ObservedEvent::CloneTriggered {
            session_id: session.value(),
            trigger_name: &trigger.name,
            producer_name: &trigger.producer_name,
            producer_uid: trigger.producer_uid.unwrap_or_default(),
            boot_time_ns: trigger.timestamp_ns,
            delay_ms: trigger.stop_delay_ms.into(),
        };
        self.send_event(|events| events.clone_triggers, &event);
    }
}
