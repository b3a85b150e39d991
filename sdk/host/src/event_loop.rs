//! The event loop: one thread serves all connections, and runs the service's timers. It never waits for
//! a peer, and for a disk only when it creates or closes the file of an `output_path`.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use tracezero_core::clock;
use tracezero_core::received_file::ClosingFiles;
use tracezero_core::small_map::SmallMap;
use tracezero_ipc::listener::Listener;
use tracezero_ipc::socket::{CLOSING_FILES_MAX, Socket};

use crate::connection::{AnyPort, Connection};
use crate::consumer_port::ConsumerPort;
use crate::host::Host;
use crate::limits::{
    ACCEPT_PAUSE, CONSUMERS_MAX, SLOW_READER_CHECK, STUCK_LIMIT, connections_max, descriptors_max,
};
use crate::log::Subject;
use crate::outgoing::{ConnectionId, Outgoing};
use crate::peer::Peer;
use crate::port::EndConnection;
use crate::producer_port::ProducerPort;

/// The number of the waker among the descriptors that are polled.
const WAKER: u64 = 0;
/// The number of the first listener; the others follow.
const FIRST_LISTENER: u64 = 1;
/// The number of the first connection.
const FIRST_CONNECTION: u64 = 1 << 16;
/// The number of events that are handled before timers run again.
const EVENTS_MAX: usize = 256;
/// The shortest time between two checks whether incremental state is too old.
const RESTART_STATE_EVERY: Duration = Duration::from_millis(100);
/// The number of connections that are accepted before existing connections have their turn.
const ACCEPTED_MAX: usize = 16;

/// The kind of peers that a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Producers,
    Consumers,
}

/// The event loop of a daemon.
pub(crate) struct EventLoop {
    host: Arc<Host>,
    epoll: OwnedFd,
    listeners: Vec<(Side, Listener)>,
    /// The time at which the loop accepts connections again, if the process has run out of
    /// descriptors.
    accepts_again: Option<Instant>,
    /// A spare descriptor. If no other is free, the loop closes it to accept, and then close, a
    /// connection.
    reserve: Option<File>,
    connections: HashMap<ConnectionId, OpenConnection>,
    /// The files that each user has sent and that are being closed.
    closing: SmallMap<u32, ClosingFiles>,
    /// The connections that wait for threads that write files.
    waiting_for_readers: Vec<ConnectionId>,
    last_connection: u64,
    connections_max: usize,
    /// The time at which a connection may miss its next deadline.
    next_check: Option<Instant>,
    /// The time of the last check for incremental state that is too old.
    restarted: Instant,
}

struct OpenConnection {
    connection: Connection,
    peer: Peer,
    /// The events of the socket that wake the loop.
    awaited: EventFlags,
}

impl OpenConnection {
    /// Sends the waiting frames, and selects the events that wake the loop: room in the socket if
    /// frames are left, and arriving frames unless frames must wait for readers.
    fn send(
        &mut self,
        epoll: &OwnedFd,
        id: ConnectionId,
        now: Instant,
    ) -> Result<(), EndConnection> {
        let is_sent = self.connection.send(now)?;
        let mut awaited = EventFlags::empty();
        awaited.set(EventFlags::OUT, !is_sent);
        awaited.set(EventFlags::IN, !self.connection.waits_for_readers());
        let before = mem::replace(&mut self.awaited, awaited);
        if awaited == before {
            return Ok(());
        }
        let data = EventData::new_u64(id.0);
        let socket = self.connection.socket();
        // If the peer closes its end, this always wakes the loop, unless the socket is removed.
        let changed = match (before.is_empty(), awaited.is_empty()) {
            (false, true) => epoll::delete(epoll, socket),
            (true, _) => epoll::add(epoll, socket, data, awaited),
            (false, false) => epoll::modify(epoll, socket, data, awaited),
        };
        Ok(changed.map_err(io::Error::from)?)
    }

    fn awaits_room(&self) -> bool {
        self.awaited.contains(EventFlags::OUT)
    }
}

impl EventLoop {
    pub(crate) fn new(host: Arc<Host>, listeners: Vec<(Side, Listener)>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = EventData::new_u64(WAKER);
        epoll::add(&epoll, &host.noted.waker, waker, EventFlags::IN)?;
        let this = Self {
            host,
            epoll,
            listeners,
            accepts_again: None,
            reserve: File::open("/dev/null").ok(),
            connections: HashMap::new(),
            closing: SmallMap::new(),
            waiting_for_readers: Vec::new(),
            last_connection: FIRST_CONNECTION,
            connections_max: connections_max(descriptors_max()),
            next_check: None,
            restarted: Instant::now(),
        };
        this.listen()?;
        Ok(this)
    }

    fn listen(&self) -> io::Result<()> {
        for (number, (_, listener)) in (FIRST_LISTENER..).zip(&self.listeners) {
            let data = EventData::new_u64(number);
            epoll::add(&self.epoll, listener, data, EventFlags::IN)?;
        }
        Ok(())
    }

    /// Takes no more connections, and removes the sockets.
    pub(crate) fn stop_listening(&mut self) {
        self.listeners.clear();
    }

    /// Sends waiting frames, runs due timers, waits for events until the next deadline, and handles
    /// them. Returns true if there were events, or if frames wait to be sent.
    pub(crate) fn turn(&mut self, latest: Option<Instant>) -> io::Result<bool> {
        let now = Instant::now();
        self.check_deadlines(now);
        self.receive_from_waiting();
        self.send_noted();
        self.host.free_ended();
        self.restart_state(now);
        let timer_ns = self.host.service.run_due_timers();
        let timer = timer_ns.map(|due_ns| {
            let rest_ns = due_ns.saturating_sub(clock::now_ns());
            now + Duration::from_nanos(rest_ns)
        });
        // The work above may have added frames to send.
        let noted = self.host.noted.has_connections().then_some(now);
        let waits = !self.waiting_for_readers.is_empty();
        let readers = waits.then_some(now + SLOW_READER_CHECK);
        let deadlines = [
            timer,
            self.next_check,
            self.accepts_again,
            latest,
            noted,
            readers,
        ];
        let next = deadlines.into_iter().flatten().min();
        let timeout = next.map(|next| next.saturating_duration_since(now));
        let events = self.wait(timeout)?;
        let had_work = noted.is_some() || !events.is_empty();
        for event in events {
            self.handle(event);
        }
        Ok(had_work)
    }

    /// Clears incremental state that is too old, because other producers have filled the ring. No
    /// timer wakes the loop for this, since the commits of those producers wake it.
    fn restart_state(&mut self, now: Instant) {
        if now - self.restarted >= RESTART_STATE_EVERY {
            self.restarted = now;
            for open in self.connections.values() {
                open.connection.restart_state();
            }
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<Event>> {
        let timeout = timeout.map(|timeout| Timespec::try_from(timeout).unwrap_or_default());
        let mut events = Vec::with_capacity(EVENTS_MAX);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(events),
            Err(error) => Err(error.into()),
        }
    }

    fn handle(&mut self, event: Event) {
        match event.data.u64() {
            WAKER => {
                self.host.noted.waker.reset();
            }
            number if number < FIRST_CONNECTION => self.accept((number - FIRST_LISTENER) as usize),
            number => {
                let id = ConnectionId(number);
                let flags = event.flags;
                let arrives = EventFlags::IN | EventFlags::HUP | EventFlags::ERR;
                if flags.intersects(arrives) {
                    self.receive(id);
                }
                self.send(id);
            }
        }
    }

    fn receive(&mut self, id: ConnectionId) {
        let now = Instant::now();
        let waited = self.waits_for_readers(id);
        self.with(id, |it| it.connection.receive(now));
        if !waited && self.waits_for_readers(id) {
            self.waiting_for_readers.push(id);
        }
    }

    /// Handles the frames of connections that need not wait for readers any more.
    fn receive_from_waiting(&mut self) {
        let mut waiting = mem::take(&mut self.waiting_for_readers);
        waiting.retain(|id| {
            let now = Instant::now();
            self.with(*id, |it| it.connection.receive(now));
            self.send(*id);
            self.waits_for_readers(*id)
        });
        self.waiting_for_readers.append(&mut waiting);
    }

    fn waits_for_readers(&self, id: ConnectionId) -> bool {
        let open = self.connections.get(&id);
        open.is_some_and(|it| it.connection.waits_for_readers())
    }

    /// Calls `work` with a connection, and closes the connection if `work` fails.
    fn with(
        &mut self,
        id: ConnectionId,
        work: impl FnOnce(&mut OpenConnection) -> Result<(), EndConnection>,
    ) {
        // The connection may have been closed meanwhile.
        if let Some(open) = self.connections.get_mut(&id)
            && let Err(end) = work(open)
        {
            self.close(id, &end);
        }
    }

    fn send(&mut self, id: ConnectionId) {
        let now = Instant::now();
        let Some(open) = self.connections.get_mut(&id) else {
            return;
        };
        match open.send(&self.epoll, id, now) {
            Ok(()) if open.awaits_room() && self.next_check.is_none() => {
                self.next_check = Some(now + STUCK_LIMIT);
            }
            Ok(()) => {}
            Err(end) => self.close(id, &end),
        }
    }

    /// Returns true if a consumer has not read the trace of its session, or not freed the session.
    pub(crate) fn has_readers(&self) -> bool {
        let mut connections = self.connections.values();
        connections.any(|open| open.connection.is_reader())
    }

    /// Sends the waiting frames of all connections that were noted.
    pub(crate) fn send_noted(&mut self) {
        for id in self.host.noted.take() {
            let open = self.connections.get(&id);
            if open.is_some_and(|it| it.connection.is_behind()) {
                self.receive(id);
            }
            self.send(id);
        }
    }

    fn close(&mut self, id: ConnectionId, end: &EndConnection) {
        let Some(open) = self.connections.remove(&id) else {
            return;
        };
        if !matches!(end, EndConnection::ByPeer) {
            let side = match open.connection.is_consumer() {
                true => "consumer",
                false => "producer",
            };
            let peer = open.peer;
            self.host.log.line(
                Subject::Ended,
                format_args!("the connection to a {side} {peer} ends: {end}"),
            );
        }
        // Closing the socket removes it from those that are polled.
        drop(open);
    }

    fn check_deadlines(&mut self, now: Instant) {
        if self.accepts_again.is_some_and(|again| again <= now) {
            self.accepts_again = None;
            if self.reserve.is_none() {
                self.reserve = File::open("/dev/null").ok();
            }
            // If listening failed for good, nobody could connect any more. So the loop tries again
            // after another pause.
            if self.listen().is_err() {
                self.accepts_again = Some(now + ACCEPT_PAUSE);
            }
        }
        if self.next_check.is_none_or(|next| next > now) {
            return;
        }
        let mut late = Vec::new();
        self.next_check = None;
        for (id, open) in &self.connections {
            match open.connection.check_deadlines(now) {
                Ok(next) => {
                    let checks = [self.next_check, next];
                    self.next_check = checks.into_iter().flatten().min();
                }
                Err(end) => late.push((*id, end)),
            }
        }
        for (id, end) in late {
            self.close(id, &end);
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTED_MAX {
            let Some((side, listener)) = self.listeners.get(index) else {
                return;
            };
            let side = *side;
            match listener.accept() {
                Ok(Some(socket)) => {
                    let peer = Peer::of(&socket, listener);
                    if let Err(reason) = self.admit(side, socket, peer) {
                        (self.host.log).line(
                            Subject::Refused,
                            format_args!("a connection is not taken: {reason}"),
                        );
                    }
                }
                Ok(None) => return,
                Err(error) if is_shortage(&error) => return self.pause_accepting(index),
                // The peer has gone already.
                Err(_) => {}
            }
        }
    }

    /// Stops accepting for a moment. Otherwise, the waiting connection would wake the loop again at
    /// once.
    fn pause_accepting(&mut self, index: usize) {
        self.reserve = None;
        if let Some((_, listener)) = self.listeners.get(index) {
            drop(listener.accept());
        }
        for (_, listener) in &self.listeners {
            let _ = epoll::delete(&self.epoll, listener);
        }
        self.accepts_again = Some(Instant::now() + ACCEPT_PAUSE);
        self.host.log.line(
            Subject::Refused,
            format_args!("no connections are taken: no descriptors are left"),
        );
    }

    fn admit(&mut self, side: Side, socket: Socket, peer: io::Result<Peer>) -> Result<(), String> {
        let peer = peer.map_err(|error| error.to_string())?;
        self.check_limits(side, peer)?;
        let socket = socket.counting_in(self.closing_files_of(peer.uid)?);
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        let outgoing = Arc::new(Outgoing::new(id, Arc::clone(&self.host.noted)));
        let (host, to_port) = (Arc::clone(&self.host), Arc::clone(&outgoing));
        let port = match side {
            Side::Producers => AnyPort::Producer(ProducerPort::new(host, peer, to_port)),
            Side::Consumers => AnyPort::Consumer(ConsumerPort::new(host, peer, to_port)),
        };
        let data = EventData::new_u64(id.0);
        epoll::add(&self.epoll, &socket, data, EventFlags::IN).map_err(|it| it.to_string())?;
        let now = Instant::now();
        let connection = Connection::new(socket, outgoing, port, self.host.wait_limits, now);
        if let Ok(Some(deadline)) = connection.check_deadlines(now) {
            let checks = [self.next_check, Some(deadline)];
            self.next_check = checks.into_iter().flatten().min();
        }
        let open = OpenConnection {
            connection,
            peer,
            awaited: EventFlags::IN,
        };
        self.connections.insert(id, open);
        Ok(())
    }

    /// Returns the count of the files of a user that are being closed. Fails if they are too many.
    fn closing_files_of(&mut self, uid: u32) -> Result<ClosingFiles, String> {
        self.closing.retain(|_, files| files.is_shared());
        let files = self.closing.or_default(uid).clone();
        match files.count() < CLOSING_FILES_MAX {
            true => Ok(files),
            false => Err(format!(
                "user {uid} has sent {CLOSING_FILES_MAX} files that are still being closed"
            )),
        }
    }

    fn check_limits(&self, side: Side, peer: Peer) -> Result<(), String> {
        let uid = peer.uid;
        if self.connections.len() >= self.connections_max {
            return Err(format!("there are {} connections", self.connections_max));
        }
        let is_privileged = uid == 0 || uid == self.host.uid;
        let of_user_max = self.connections_max / 4;
        let of_user = || {
            let connections = self.connections.values();
            connections.filter(|open| open.peer.uid == uid).count()
        };
        if !is_privileged && of_user() >= of_user_max {
            return Err(format!("user {uid} has {of_user_max} connections"));
        }
        let consumers = || {
            let connections = self.connections.values();
            connections.filter(|it| it.connection.is_consumer()).count()
        };
        if side == Side::Consumers && consumers() >= CONSUMERS_MAX {
            return Err(format!("there are {CONSUMERS_MAX} consumers"));
        }
        Ok(())
    }
}

fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    shortages
        .map(|it| Some(it.raw_os_error()))
        .contains(&error.raw_os_error())
}
