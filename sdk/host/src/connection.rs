//! One connection: from frames to the port, and from what is to be sent to the socket.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use tracezero_core::received_file::ReceivedFile;
use tracezero_ipc::send_queue::SendQueue;
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, BoundService, Frame};

use crate::consumer_port::ConsumerPort;
use crate::limits::{
    COMMITS_PER_TURN_MAX, CONSUMER_QUEUE_HIGH_BYTES, FRAMES_PER_TURN_MAX, HANDSHAKE_LIMIT,
    MALFORMED_FRAMES_MAX, PRODUCER_QUEUE_MAX_BYTES, STUCK_LIMIT,
};
use crate::outgoing::{NO_REPLY, Outgoing};
use crate::port::{Answer, EndConnection, Invocation, Port};
use crate::producer_port::ProducerPort;
use crate::slow_readers::{SlowReaders, WaitLimits};

/// The number of the service that a connection may bind. Each connection has one service.
const SERVICE_ID: u32 = 1;

/// A connection.
pub(crate) struct Connection {
    socket: Socket,
    outgoing: Arc<Outgoing>,
    port: AnyPort,
    opened: Instant,
    malformed_frames: u32,
    /// True if frames have arrived that wait for the next turn.
    is_behind: bool,
    /// Waits for the readers of the producer's buffers.
    slow_readers: SlowReaders,
    /// True once the peer has closed the connection.
    is_closed: bool,
    /// The time since when frames wait and the peer takes no bytes.
    blocked_since: Option<Instant>,
}

/// The port of a connection.
pub(crate) enum AnyPort {
    Producer(ProducerPort),
    Consumer(ConsumerPort),
}

impl Connection {
    pub(crate) fn new(
        socket: Socket,
        outgoing: Arc<Outgoing>,
        port: AnyPort,
        wait_limits: WaitLimits,
        now: Instant,
    ) -> Self {
        Self {
            socket,
            outgoing,
            port,
            opened: now,
            malformed_frames: 0,
            is_behind: false,
            slow_readers: SlowReaders::new(wait_limits),
            is_closed: false,
            blocked_since: None,
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn is_consumer(&self) -> bool {
        matches!(self.port, AnyPort::Consumer(_))
    }

    /// Returns true for a consumer that has not freed a session whose trace it reads itself.
    pub(crate) fn is_reader(&self) -> bool {
        matches!(&self.port, AnyPort::Consumer(port) if port.is_reader())
    }

    /// Clears the incremental state of the connection's producer where it is too old.
    pub(crate) fn restart_state(&self) {
        if let AnyPort::Producer(port) = &self.port {
            port.restart_state();
        }
    }

    /// Returns true if frames have arrived that wait for the next turn.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Returns true if nothing is received until readers of the producer's buffers have caught up.
    pub(crate) fn waits_for_readers(&self) -> bool {
        self.slow_readers.are_awaited()
    }

    /// Receives at most 128 KiB, unless earlier frames still wait. Then handles a limited number of
    /// complete frames, so that other connections have their turn. Also handles the frames that a
    /// peer sent before it closed the connection. Does nothing while frames must wait for a reader
    /// of the producer's buffers.
    pub(crate) fn receive(&mut self, now: Instant) -> Result<(), EndConnection> {
        // A panic ends this connection alone. Its port is dropped, and nothing else uses it.
        let waits = catch_unwind(AssertUnwindSafe(|| self.must_wait(now)));
        if waits.map_err(|_| EndConnection::Panicked)? {
            return Ok(());
        }
        if !self.is_behind {
            self.is_closed = self.socket.receive()? == Received::End;
        }
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle_frames()));
        handled.unwrap_or(Err(EndConnection::Panicked))?;
        if self.is_behind {
            self.outgoing.note();
        } else if self.is_closed {
            return Err(EndConnection::ByPeer);
        }
        Ok(())
    }

    fn must_wait(&mut self, now: Instant) -> bool {
        let AnyPort::Producer(port) = &self.port else {
            return false;
        };
        (self.slow_readers).must_wait(&port.buffers_of_slow_readers(), now)
    }

    fn handle_frames(&mut self) -> Result<(), EndConnection> {
        self.is_behind = false;
        let mut commits = 0;
        for _ in 0..FRAMES_PER_TURN_MAX {
            let Some(arrived) = self.socket.next_frame_with_descriptor()? else {
                return Ok(());
            };
            let descriptor = arrived.descriptor;
            let Ok(frame) = Frame::decode(arrived.frame) else {
                self.malformed_frames += 1;
                if self.malformed_frames >= MALFORMED_FRAMES_MAX {
                    return Err(EndConnection::MalformedFrames);
                }
                continue;
            };
            match &mut self.port {
                AnyPort::Producer(port) => handle(port, &self.outgoing, &frame, descriptor)?,
                AnyPort::Consumer(port) => handle(port, &self.outgoing, &frame, descriptor)?,
            }
            // A short request may have a long reply.
            self.check_queue(self.outgoing.len_bytes())?;
            if let AnyPort::Producer(port) = &mut self.port {
                commits += usize::from(port.take_has_moved());
                if commits >= COMMITS_PER_TURN_MAX || port.outran_reader() {
                    break;
                }
            }
        }
        self.is_behind = true;
        Ok(())
    }

    /// Sends the waiting frames as far as the socket has room, and queues the next part of a trace
    /// that a consumer reads. Returns true if no frames are left, or if the peer has gone.
    pub(crate) fn send(&mut self, now: Instant) -> Result<bool, EndConnection> {
        self.outgoing.take(self.socket.queue());
        let before = self.socket.unsent_bytes();
        let is_sent = match self.socket.send() {
            // The connection does not end yet, because the stream may hold frames that the peer
            // sent before it closed. The connection ends at the end of the stream. A peer that has
            // closed only its receiving half is still served, but gets no replies.
            Err(error) if has_gone(&error) => {
                *self.socket.queue() = SendQueue::default();
                self.blocked_since = None;
                return Ok(true);
            }
            sent => sent?,
        };
        let after = self.socket.unsent_bytes();
        if is_sent {
            self.blocked_since = None;
        } else if after < before || self.blocked_since.is_none() {
            self.blocked_since = Some(now);
        }
        if self.outgoing.is_given_up() {
            return Err(EndConnection::QueueFull);
        }
        self.check_queue(0)?;
        // Queues the next part only if few bytes still wait for the consumer. Queuing the part
        // notes the connection, so the next turn sends the part.
        if let AnyPort::Consumer(port) = &mut self.port
            && port.has_more()
            && after <= CONSUMER_QUEUE_HIGH_BYTES
        {
            let read = catch_unwind(AssertUnwindSafe(|| port.go_on()));
            read.map_err(|_| EndConnection::Panicked)?;
        }
        Ok(is_sent)
    }

    /// Fails if more bytes wait for the peer than its queue may hold. `more_bytes` is the number of
    /// waiting bytes that the socket's queue does not contain yet.
    fn check_queue(&self, more_bytes: usize) -> Result<(), EndConnection> {
        let max_bytes = match &self.port {
            AnyPort::Producer(_) => PRODUCER_QUEUE_MAX_BYTES,
            AnyPort::Consumer(port) => port.queue_max_bytes(),
        };
        match self.socket.unsent_bytes() + more_bytes > max_bytes {
            true => Err(EndConnection::QueueFull),
            false => Ok(()),
        }
    }

    /// Fails if the peer has missed a deadline. Returns the next deadline.
    pub(crate) fn check_deadlines(&self, now: Instant) -> Result<Option<Instant>, EndConnection> {
        let is_introduced = match &self.port {
            AnyPort::Producer(port) => port.is_introduced(),
            AnyPort::Consumer(port) => port.is_introduced(),
        };
        let introduction = (!is_introduced).then(|| self.opened + HANDSHAKE_LIMIT);
        let sending = self.blocked_since.map(|since| since + STUCK_LIMIT);
        if introduction.is_some_and(|deadline| deadline <= now) {
            return Err(EndConnection::NotIntroduced);
        }
        if sending.is_some_and(|deadline| deadline <= now) {
            return Err(EndConnection::Stuck);
        }
        Ok(introduction.into_iter().chain(sending).min())
    }
}

/// Returns true if sending has failed because the peer has closed its end.
fn has_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outgoing.close();
    }
}

/// Handles a frame.
fn handle<P: Port>(
    port: &mut P,
    outgoing: &Outgoing,
    frame: &Frame<'_>,
    descriptor: &mut Option<ReceivedFile>,
) -> Result<(), EndConnection> {
    let request_id = frame.request_id;
    match &frame.body {
        Body::Bind { service } => {
            let bound = (*service == P::SERVICE).then(|| BoundService {
                service_id: SERVICE_ID,
                methods: P::methods(),
            });
            outgoing.send(request_id, Body::Bound(bound));
        }
        Body::Invoke {
            service_id,
            method_id,
            args,
            drops_reply,
        } => {
            // Replies that come later are dropped, too.
            let request_id = match *drops_reply {
                true => NO_REPLY,
                false => request_id,
            };
            let invocation = Invocation {
                request_id,
                method_id: *method_id,
                args,
            };
            let answer = match *service_id == SERVICE_ID {
                true => port.invoke(&invocation, descriptor)?,
                false => Answer::Failed,
            };
            match answer {
                Answer::Reply(reply) => {
                    if !outgoing.reply(request_id, Some(&reply)) {
                        outgoing.reply(request_id, None);
                    }
                }
                Answer::Failed => {
                    outgoing.reply(request_id, None);
                }
                Answer::Later => {}
            }
        }
        Body::Bound(_) | Body::Reply { .. } | Body::Error { .. } | Body::Unknown => {
            let text = "unknown request";
            outgoing.send(request_id, Body::Error { text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::time::Duration;

    use tracezero_ipc::consumer_port::Method;
    use tracezero_ipc::waker::Waker;
    use tracezero_service::trace_buffer::ClientIdentity;
    use tracezero_service::{Limits, Machine, Service};

    use super::*;
    use crate::detached::Detached;
    use crate::host::Host;
    use crate::log::Log;
    use crate::memory::MemoryQuotas;
    use crate::outgoing::{ConnectionId, Noted};
    use crate::peer::Peer;

    /// Returns the connection of a consumer, and the consumer's end of it.
    fn connection(opened: Instant) -> (Connection, UnixStream) {
        let (own, other) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let host = Arc::new(Host {
            service: Service::new(Arc::new(Machine), Limits::default()),
            uid: 0,
            log: Log::new(|_| ()),
            memory_quotas: Arc::new(MemoryQuotas::default()),
            output_folder: None,
            records_all: false,
            wait_limits: WaitLimits::default(),
            detached: Detached::default(),
            is_ending: AtomicBool::new(false),
            open_files: AtomicUsize::new(0),
            noted: Arc::new(Noted::new(Waker::new().unwrap())),
        });
        let peer = Peer {
            uid: 0,
            identity: ClientIdentity::default(),
            is_on_network: false,
        };
        let outgoing = Arc::new(Outgoing::new(ConnectionId(1), Arc::clone(&host.noted)));
        let port = ConsumerPort::new(host, peer, Arc::clone(&outgoing));
        let socket = Socket::of_stream(own.into());
        let port = AnyPort::Consumer(port);
        let connection = Connection::new(socket, outgoing, port, WaitLimits::default(), opened);
        (connection, other)
    }

    fn call(consumer: &mut UnixStream) {
        let mut frame = Vec::new();
        Frame {
            request_id: 1,
            body: Body::Invoke {
                service_id: SERVICE_ID,
                method_id: Method::QueryCapabilities.id(),
                args: &[],
                drops_reply: true,
            },
        }
        .append_to(&mut frame);
        std::io::Write::write_all(consumer, &frame).unwrap();
    }

    #[test]
    fn a_peer_that_makes_no_call_in_time_is_disconnected() {
        let opened = Instant::now();
        let deadline = opened + HANDSHAKE_LIMIT;
        let (mut connection, mut consumer) = connection(opened);
        let next = connection.check_deadlines(deadline - Duration::from_nanos(1));
        assert!(matches!(next, Ok(Some(next)) if next == deadline));
        let late = connection.check_deadlines(deadline);
        assert!(matches!(late, Err(EndConnection::NotIntroduced)));
        call(&mut consumer);
        connection.receive(Instant::now()).unwrap();
        assert!(matches!(connection.check_deadlines(deadline), Ok(None)));
    }

    #[test]
    fn a_peer_that_takes_nothing_in_time_is_disconnected() {
        let begin = Instant::now();
        let (mut connection, mut consumer) = connection(begin);
        call(&mut consumer);
        connection.receive(Instant::now()).unwrap();
        // The socket does not have room for all of it.
        for _ in 0..20 {
            connection.outgoing.reply(1, Some(&[0; 100_000]));
        }
        assert!(!connection.send(begin).unwrap());
        let deadline = begin + STUCK_LIMIT;
        let next = connection.check_deadlines(deadline - Duration::from_nanos(1));
        assert!(matches!(next, Ok(Some(next)) if next == deadline));
        // An attempt to send that sends nothing is no progress.
        assert!(!connection.send(begin + Duration::from_secs(5)).unwrap());
        let late = connection.check_deadlines(deadline);
        assert!(matches!(late, Err(EndConnection::Stuck)));
        // Bytes that the peer takes are progress.
        consumer.read_exact(&mut vec![0; 200_000]).unwrap();
        assert!(!connection.send(begin + Duration::from_secs(5)).unwrap());
        assert!(connection.check_deadlines(deadline).is_ok());
        consumer.set_nonblocking(true).unwrap();
        while !connection.send(deadline).unwrap() {
            let _ = consumer.read(&mut vec![0; 200_000]).unwrap();
        }
        assert!(matches!(
            connection.check_deadlines(deadline + STUCK_LIMIT),
            Ok(None)
        ));
    }

    #[test]
    fn a_connection_handles_some_frames_a_turn() {
        let (mut connection, mut consumer) = connection(Instant::now());
        // Each of these frames is answered.
        for _ in 0..3 * FRAMES_PER_TURN_MAX {
            std::io::Write::write_all(&mut consumer, &[2, 0, 0, 0, 0x10, 1]).unwrap();
        }
        drop(consumer);
        let mut answered = Vec::new();
        for _ in 0..2 {
            connection.receive(Instant::now()).unwrap();
            assert!(connection.is_behind());
            answered.push(connection.outgoing.len_bytes());
        }
        assert_eq!(answered[1], 2 * answered[0]);
        // What the peer has sent before it has gone is handled, too.
        let mut turns = std::iter::repeat_with(|| connection.receive(Instant::now()));
        let end = turns.find_map(Result::err);
        assert!(matches!(end, Some(EndConnection::ByPeer)), "{end:?}");
        assert_eq!(connection.outgoing.len_bytes(), 3 * answered[0]);
    }

    #[test]
    fn a_peer_that_has_gone_is_heard_to_the_end() {
        let (mut connection, mut consumer) = connection(Instant::now());
        let frames = 3 * FRAMES_PER_TURN_MAX;
        for _ in 0..frames {
            std::io::Write::write_all(&mut consumer, &[2, 0, 0, 0, 0x10, 1]).unwrap();
        }
        // The peer closes its end while answers wait that it does not take.
        connection.receive(Instant::now()).unwrap();
        let answered = connection.outgoing.len_bytes();
        connection.send(Instant::now()).unwrap();
        drop(consumer);
        let mut bytes = answered;
        let end = loop {
            let handled = connection.receive(Instant::now());
            bytes += connection.outgoing.len_bytes();
            if let Err(end) = handled {
                break end;
            }
            assert!(connection.send(Instant::now()).unwrap());
        };
        assert!(matches!(end, EndConnection::ByPeer), "{end:?}");
        assert_eq!(bytes, 3 * answered);
    }
}
