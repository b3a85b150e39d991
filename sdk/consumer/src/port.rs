//! Requests, and the replies and events that arrive for them.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tracezero_ipc::address::Address;
use tracezero_ipc::consumer_port::requests::Request;
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, Frame};

use crate::error::ConsumerError;

/// How long a call waits for a reply. A daemon replies at once, unless it is stopped or the machine
/// is busy.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A connection, and the replies that have arrived.
pub(crate) struct Port {
    socket: Socket,
    service_id: u32,
    /// The names and numbers of the daemon's methods.
    methods: Vec<(String, u32)>,
    last_request: u64,
    /// Replies that nobody has taken, with the numbers of their requests.
    replies: VecDeque<(u64, Reply)>,
}

/// A reply, or one of several.
#[derive(Debug)]
pub(crate) struct Reply {
    /// `None` if the method has failed.
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) has_more: bool,
}

/// A request whose replies have not all arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    request_id: u64,
    pub(crate) method: &'static str,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("last_request", &self.last_request)
            .field("replies", &self.replies.len())
            .finish_non_exhaustive()
    }
}

impl Port {
    /// Connects to a service of the daemon, and learns its methods.
    pub(crate) fn connect(address: &Address, service: &'static str) -> Result<Self, ConsumerError> {
        let socket = Socket::connect(address).map_err(|source| ConsumerError::Connect {
            address: address.clone(),
            source,
        })?;
        let mut port = Self {
            socket,
            service_id: 0,
            methods: Vec::new(),
            last_request: 0,
            replies: VecDeque::new(),
        };
        port.bind(address, service)?;
        Ok(port)
    }

    fn bind(&mut self, address: &Address, service: &'static str) -> Result<(), ConsumerError> {
        self.last_request += 1;
        let body = Body::Bind { service };
        self.send(self.last_request, body, None, "bind")?;
        let end = Instant::now() + ANSWER_LIMIT;
        loop {
            if let Some(bytes) = self.socket.next_frame()? {
                let frame = decode(bytes)?;
                let Body::Bound(Some(bound)) = frame.body else {
                    let address = address.clone();
                    return Err(ConsumerError::NoSuchPort { address, service });
                };
                self.service_id = bound.service_id;
                let methods = bound.methods.iter();
                self.methods = methods
                    .map(|(name, id)| ((*name).to_owned(), *id))
                    .collect();
                return Ok(());
            }
            if !self.receive(end)? {
                return Err(no_answer("bind", ANSWER_LIMIT));
            }
        }
    }

    /// Sends a request, with a file if there is one.
    pub(crate) fn ask(
        &mut self,
        request: &Request<'_>,
        file: Option<OwnedFd>,
    ) -> Result<Asked, ConsumerError> {
        self.invoke(request.method().name(), &request.encode(), file)
    }

    /// Invokes a method, with a file if there is one.
    pub(crate) fn invoke(
        &mut self,
        method: &'static str,
        args: &[u8],
        file: Option<OwnedFd>,
    ) -> Result<Asked, ConsumerError> {
        let mut methods = self.methods.iter();
        let Some((_, method_id)) = methods.find(|(name, _)| name == method) else {
            return Err(ConsumerError::NoSuchMethod { method });
        };
        self.last_request += 1;
        let body = Body::Invoke {
            service_id: self.service_id,
            method_id: *method_id,
            args,
            drops_reply: false,
        };
        self.send(self.last_request, body, file, method)?;
        Ok(Asked {
            request_id: self.last_request,
            method,
        })
    }

    fn send(
        &mut self,
        request_id: u64,
        body: Body<'_>,
        file: Option<OwnedFd>,
        method: &'static str,
    ) -> Result<(), ConsumerError> {
        let mut bytes = Vec::new();
        if !(Frame { request_id, body }).append_if_it_fits(&mut bytes) {
            return Err(ConsumerError::TooLong { method });
        }
        let queue = self.socket.queue();
        let append = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
        match file {
            Some(file) => queue.push_with_descriptor(file, append),
            None => queue.push(append),
        }
        let end = Instant::now() + ANSWER_LIMIT;
        while !self.socket.send().map_err(ConsumerError::Io)? {
            if !self.wait(PollFlags::OUT, end)? {
                return Err(no_answer(method, ANSWER_LIMIT));
            }
        }
        Ok(())
    }

    /// Sends a request, and waits for its only reply.
    pub(crate) fn call(&mut self, request: &Request<'_>) -> Result<Vec<u8>, ConsumerError> {
        let asked = self.ask(request, None)?;
        self.reply_within(asked, ANSWER_LIMIT)
    }

    /// Waits for the only reply to a request.
    pub(crate) fn reply_within(
        &mut self,
        asked: Asked,
        limit: Duration,
    ) -> Result<Vec<u8>, ConsumerError> {
        self.next_reply(asked, limit)?.success(asked)
    }

    /// Waits for the next reply to a request.
    pub(crate) fn next_reply(
        &mut self,
        asked: Asked,
        limit: Duration,
    ) -> Result<Reply, ConsumerError> {
        let reply = self.poll_reply(asked, limit)?;
        reply.ok_or_else(|| no_answer(asked.method, limit))
    }

    /// Waits for the next reply to a request. Returns `None` if none has come in time.
    pub(crate) fn poll_reply(
        &mut self,
        asked: Asked,
        limit: Duration,
    ) -> Result<Option<Reply>, ConsumerError> {
        let end = Instant::now() + limit;
        loop {
            let is_wanted = |(request_id, _): &(u64, Reply)| *request_id == asked.request_id;
            if let Some(at) = self.replies.iter().position(is_wanted) {
                return Ok(self.replies.remove(at).map(|(_, reply)| reply));
            }
            if !self.take_frame()? && !self.receive(end)? {
                return Ok(None);
            }
        }
    }

    /// Forgets the replies to a request that have arrived.
    pub(crate) fn forget(&mut self, asked: Asked) {
        self.replies
            .retain(|(request_id, _)| *request_id != asked.request_id);
    }

    /// Takes the next frame that was received, if there is a whole one.
    fn take_frame(&mut self) -> Result<bool, ConsumerError> {
        let Some(bytes) = self.socket.next_frame()? else {
            return Ok(false);
        };
        let frame = decode(bytes)?;
        match frame.body {
            Body::Reply { reply, has_more } => {
                let bytes = reply.map(<[u8]>::to_vec);
                let reply = Reply { bytes, has_more };
                self.replies.push_back((frame.request_id, reply));
            }
            Body::Error { text } => {
                let reason = format!("it does not know request {}: {text}", frame.request_id);
                return Err(ConsumerError::Protocol { reason });
            }
            // Newer daemons may send other frames.
            _ => {}
        }
        Ok(true)
    }

    /// Receives bytes. Returns false if none have come until `end`.
    fn receive(&mut self, end: Instant) -> Result<bool, ConsumerError> {
        loop {
            match self.socket.receive().map_err(ConsumerError::Io)? {
                Received::Bytes => return Ok(true),
                Received::End => return Err(ConsumerError::Closed),
                Received::Nothing if !self.wait(PollFlags::IN, end)? => return Ok(false),
                Received::Nothing => {}
            }
        }
    }

    /// Waits for the socket. Returns false at `end`.
    fn wait(&self, flags: PollFlags, end: Instant) -> Result<bool, ConsumerError> {
        let rest = end.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)];
        let timeout = Timespec::try_from(rest).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => Ok(false),
            // The caller checks the time again.
            Ok(_) | Err(Errno::INTR) => Ok(true),
            Err(error) => Err(ConsumerError::Io(error.into())),
        }
    }
}

impl Reply {
    /// Returns the bytes, or the error that the method has failed.
    pub(crate) fn success(self, asked: Asked) -> Result<Vec<u8>, ConsumerError> {
        let method = asked.method;
        self.bytes.ok_or(ConsumerError::Failed { method })
    }
}

fn decode(bytes: &[u8]) -> Result<Frame<'_>, ConsumerError> {
    Frame::decode(bytes).map_err(|error| ConsumerError::malformed("a request", error))
}

fn no_answer(method: &'static str, waited: Duration) -> ConsumerError {
    ConsumerError::NoAnswer { method, waited }
}
