//! The frames that are to be sent over a connection. Any thread adds to them; the event loop sends
//! them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use tracezero_core::ids::SessionId;
use tracezero_ipc::send_queue::SendQueue;
use tracezero_ipc::waker::Waker;
use tracezero_ipc::wire::{Body, Frame};

/// The number of a connection. No two connections of a daemon have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// The number of a request whose client wants no reply: replies to it are dropped. The numbers of other
/// requests begin at 1 and ascend.
pub(crate) const NO_REPLY: u64 = u64::MAX;

/// The work that others leave to the event loop, and its waker.
#[derive(Debug)]
pub(crate) struct Noted {
    /// The connections that have something to send.
    connections: Mutex<Vec<ConnectionId>>,
    /// Sessions without a consumer that have ended.
    ended: Mutex<Vec<SessionId>>,
    pub(crate) waker: Waker,
    /// The thread of the event loop, which does not wake itself.
    loop_thread: OnceLock<ThreadId>,
}

impl Noted {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            connections: Mutex::default(),
            ended: Mutex::default(),
            waker,
            loop_thread: OnceLock::new(),
        }
    }

    /// Makes this thread the one of the event loop.
    pub(crate) fn enter_loop(&self) {
        let _ = self.loop_thread.set(thread::current().id());
    }

    fn note(&self, connection: ConnectionId) {
        self.connections.lock().push(connection);
        if self.loop_thread.get() != Some(&thread::current().id()) {
            self.waker.wake();
        }
    }

    /// Notes that a session without a consumer has ended.
    pub(crate) fn note_ended(&self, session: SessionId) {
        self.ended.lock().push(session);
        self.waker.wake();
    }

    /// Returns the sessions that were noted since the last call.
    pub(crate) fn take_ended(&self) -> Vec<SessionId> {
        std::mem::take(&mut self.ended.lock())
    }

    /// Returns true if a connection was noted since [`take`](Self::take) was called.
    pub(crate) fn has_connections(&self) -> bool {
        !self.connections.lock().is_empty()
    }

    /// Returns the connections that were noted since the last call.
    pub(crate) fn take(&self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.connections.lock())
    }
}

/// The frames that are to be sent over a connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    connection: ConnectionId,
    queue: Mutex<Queue>,
    noted: Arc<Noted>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: SendQueue,
    is_noted: bool,
    is_closed: bool,
    is_given_up: bool,
}

impl Outgoing {
    pub(crate) fn new(connection: ConnectionId, noted: Arc<Noted>) -> Self {
        Self {
            connection,
            queue: Mutex::default(),
            noted,
        }
    }

    /// Adds a frame. Returns false, and adds nothing, if it is too long for the protocol.
    pub(crate) fn send(&self, request_id: u64, body: Body<'_>) -> bool {
        if request_id == NO_REPLY {
            return true;
        }
        let frame = Frame { request_id, body };
        self.push(|queue| {
            let mut fits = true;
            queue.push(|out| fits = frame.append_if_it_fits(out));
            fits
        })
    }

    /// Adds a short frame with a descriptor.
    pub(crate) fn send_with_descriptor(
        &self,
        request_id: u64,
        body: Body<'_>,
        descriptor: OwnedFd,
    ) -> bool {
        let frame = Frame { request_id, body };
        self.push(|queue| {
            queue.push_with_descriptor(descriptor, |out| frame.append_to(out));
            true
        })
    }

    /// Adds the only reply to a request, or the last. `None` says that the request has failed.
    pub(crate) fn reply(&self, request_id: u64, reply: Option<&[u8]>) -> bool {
        let has_more = false;
        self.send(request_id, Body::Reply { reply, has_more })
    }

    /// Adds a reply that others follow.
    pub(crate) fn reply_and_go_on(&self, request_id: u64, reply: &[u8]) -> bool {
        let body = Body::Reply {
            reply: Some(reply),
            has_more: true,
        };
        self.send(request_id, body)
    }

    /// Makes the event loop end the connection, because too much waits for it.
    pub(crate) fn give_up(&self) {
        self.queue.lock().is_given_up = true;
        self.note();
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.queue.lock().is_given_up
    }

    /// Notes the connection, so that it has another turn.
    pub(crate) fn note(&self) {
        self.push(|_| true);
    }

    /// Returns the number of bytes that were added since the last call of [`take`](Self::take).
    pub(crate) fn len_bytes(&self) -> usize {
        self.queue.lock().bytes.len_bytes()
    }

    fn push(&self, push: impl FnOnce(&mut SendQueue) -> bool) -> bool {
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return true;
        }
        let fits = push(&mut queue.bytes);
        let is_first = !std::mem::replace(&mut queue.is_noted, true);
        drop(queue);
        if is_first {
            self.noted.note(self.connection);
        }
        fits
    }

    /// Moves what was added since the last call into `to`.
    pub(crate) fn take(&self, to: &mut SendQueue) {
        let mut queue = self.queue.lock();
        queue.is_noted = false;
        to.append(&mut queue.bytes);
    }

    /// Adds nothing any more.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        queue.bytes = SendQueue::default();
    }
}
