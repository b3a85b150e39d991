//! One connection to the daemon, frame by frame.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracezero_core::received_file::ReceivedFile;
use tracezero_ipc::address::Address;
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, Frame};

/// The longest time that a step takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The number that the daemon gives the service of a connection.
pub const SERVICE_ID: u32 = 1;

/// A frame of the daemon.
#[derive(Debug)]
pub struct Arrived {
    pub request_id: u64,
    pub body: ArrivedBody,
    pub descriptor: Option<OwnedFd>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrivedBody {
    /// The names and numbers of methods; `None` if there is no such service.
    Bound(Option<Vec<(String, u32)>>),
    /// `None` if the call failed.
    Reply {
        reply: Option<Vec<u8>>,
        has_more: bool,
    },
    Error(String),
}

/// A connection to the daemon.
pub struct Peer {
    socket: Socket,
    last_request: u64,
    /// Frames that arrived while the test waited for another frame.
    inbox: VecDeque<Arrived>,
}

impl Peer {
    pub fn connect(path: &Path) -> Self {
        let address = Address::Path(path.to_owned());
        Self {
            socket: Socket::connect(&address).unwrap(),
            last_request: 0,
            inbox: VecDeque::new(),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a request, and returns its number.
    pub fn send(&mut self, body: Body<'_>) -> u64 {
        let request_id = self.next_request();
        self.send_frame(&Frame { request_id, body });
        request_id
    }

    pub fn next_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    pub fn send_frame(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        self.send_bytes(&bytes);
    }

    /// Sends bytes of the stream. They may be lost if the daemon has closed the connection.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let queue = self.socket.queue();
        queue.push(|stream| stream.extend_from_slice(bytes));
        self.send_queued();
    }

    fn send_queued(&mut self) {
        let start = Instant::now();
        while let Ok(false) = self.socket.send() {
            assert!(start.elapsed() < PATIENCE, "the daemon takes nothing");
            self.wait(PollFlags::OUT);
        }
    }

    /// Calls a method, and returns the number of the request.
    pub fn invoke(&mut self, method_id: u32, args: &[u8]) -> u64 {
        self.send(invocation(method_id, args))
    }

    /// Calls a method with a descriptor.
    pub fn invoke_with(&mut self, method_id: u32, args: &[u8], descriptor: OwnedFd) -> u64 {
        let request_id = self.next_request();
        let body = invocation(method_id, args);
        let frame = Frame { request_id, body };
        (self.socket.queue()).push_with_descriptor(descriptor, |stream| frame.append_to(stream));
        self.send_queued();
        request_id
    }

    /// Returns true if bytes have arrived that were not received yet.
    pub fn is_readable(&self) -> bool {
        self.wait_for(PollFlags::IN, Duration::ZERO)
    }

    fn wait(&self, flags: PollFlags) -> bool {
        self.wait_for(flags, PATIENCE)
    }

    fn wait_for(&self, flags: PollFlags, longest: Duration) -> bool {
        let timeout = Timespec::try_from(longest).unwrap();
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)];
        poll(&mut fds, Some(&timeout)).unwrap() > 0
    }

    /// Returns the next frame; `None` if the daemon has closed the connection.
    #[track_caller]
    pub fn next(&mut self) -> Option<Arrived> {
        match self.inbox.pop_front() {
            Some(arrived) => Some(arrived),
            None => self.receive(),
        }
    }

    /// Returns the next frame of the bytes that were received.
    fn next_received(&mut self) -> Option<Arrived> {
        let frame = Frame::decode(self.socket.next_frame().unwrap()?).unwrap();
        let request_id = frame.request_id;
        let body = match frame.body {
            Body::Bound(bound) => ArrivedBody::Bound(bound.map(|bound| {
                let methods = bound.methods.into_iter();
                methods.map(|(name, id)| (name.to_owned(), id)).collect()
            })),
            Body::Reply { reply, has_more } => ArrivedBody::Reply {
                reply: reply.map(<[u8]>::to_vec),
                has_more,
            },
            Body::Error { text } => ArrivedBody::Error(text.to_owned()),
            other => panic!("the daemon sends {other:?}"),
        };
        let descriptor = self.socket.take_descriptor();
        Some(Arrived {
            request_id,
            body,
            descriptor: descriptor.map(ReceivedFile::into_descriptor),
        })
    }

    #[track_caller]
    fn receive(&mut self) -> Option<Arrived> {
        let start = Instant::now();
        loop {
            if let Some(arrived) = self.next_received() {
                return Some(arrived);
            }
            let has_come = self.wait(PollFlags::IN) && start.elapsed() < PATIENCE;
            assert!(has_come, "nothing comes from the daemon");
            match self.socket.receive() {
                Ok(Received::End) => return None,
                // The daemon has not read everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                received => assert!(received.is_ok(), "{received:?}"),
            }
        }
    }

    /// Returns true if a frame for a request has arrived.
    pub fn has_arrived(&mut self, request_id: u64) -> bool {
        while self.is_readable() && !matches!(self.socket.receive().unwrap(), Received::End) {}
        while let Some(arrived) = self.next_received() {
            self.inbox.push_back(arrived);
        }
        let mut inbox = self.inbox.iter();
        inbox.any(|arrived| arrived.request_id == request_id)
    }

    /// Returns the next frame for a request. Frames for others wait.
    #[track_caller]
    pub fn next_for(&mut self, request_id: u64) -> Arrived {
        let is_wanted = |arrived: &Arrived| arrived.request_id == request_id;
        if let Some(at) = self.inbox.iter().position(is_wanted) {
            return self.inbox.remove(at).unwrap();
        }
        loop {
            let arrived = self.receive();
            let arrived = arrived.expect("the daemon has closed the connection");
            if is_wanted(&arrived) {
                return arrived;
            }
            self.inbox.push_back(arrived);
        }
    }

    /// Returns the next reply to a request, and whether more follow. `None` says that it has failed.
    #[track_caller]
    pub fn reply_part(&mut self, request_id: u64) -> (Option<Vec<u8>>, bool) {
        match self.next_for(request_id).body {
            ArrivedBody::Reply { reply, has_more } => (reply, has_more),
            other => panic!("no reply: {other:?}"),
        }
    }

    /// Returns the only reply to a request. `None` says that it has failed.
    #[track_caller]
    pub fn reply(&mut self, request_id: u64) -> Option<Vec<u8>> {
        let (reply, has_more) = self.reply_part(request_id);
        assert!(!has_more, "more replies follow");
        reply
    }

    /// Calls a method, and returns its only reply. `None` says that it has failed.
    #[track_caller]
    pub fn call(&mut self, method_id: u32, args: &[u8]) -> Option<Vec<u8>> {
        let request_id = self.invoke(method_id, args);
        self.reply(request_id)
    }

    /// Returns true if a frame for this request has arrived, or arrives before the answer to a call
    /// that the daemon handles at once.
    #[track_caller]
    pub fn has_answer(&mut self, request_id: u64) -> bool {
        let bind = self.send(Body::Bind { service: "" });
        let answer = self.next_for(bind);
        assert_eq!(answer.body, ArrivedBody::Bound(None));
        let mut inbox = self.inbox.iter();
        inbox.any(|arrived| arrived.request_id == request_id)
    }

    /// Waits until the daemon has closed the connection.
    #[track_caller]
    pub fn wait_for_end(&mut self) {
        while self.receive().is_some() {}
    }
}

/// Returns the call of a method.
pub fn invocation(method_id: u32, args: &[u8]) -> Body<'_> {
    Body::Invoke {
        service_id: SERVICE_ID,
        method_id,
        args,
        drops_reply: false,
    }
}
