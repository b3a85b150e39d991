//! A daemon that does what a test says, one step at a time.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use support::Folder;
use tracezero::{System, SystemState};
use tracezero_core::shm::{Geometry, SharedFd};
use tracezero_ipc::frame::append_frame;
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, BoundService, Frame};

/// The longest time that a step takes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The methods of the service, in the order of Perfetto's daemon.
pub const METHODS: [&str; 12] = [
    "InitializeConnection",
    "RegisterDataSource",
    "UnregisterDataSource",
    "CommitData",
    "GetAsyncCommand",
    "RegisterTraceWriter",
    "UnregisterTraceWriter",
    "NotifyDataSourceStarted",
    "NotifyDataSourceStopped",
    "ActivateTriggers",
    "Sync",
    "UpdateDataSource",
];

/// A daemon that listens.
pub struct Daemon {
    folder: Folder,
    listener: UnixListener,
}

impl Daemon {
    pub fn listen() -> Self {
        let folder = Folder::empty();
        let listener = UnixListener::bind(folder.file("producer")).unwrap();
        Self { folder, listener }
    }

    /// Connects this process to the daemon.
    pub fn system(&self) -> System {
        let socket = self.folder.file("producer").display().to_string();
        let builder = System::builder().producer_name("tested").socket(socket);
        builder.connect().unwrap()
    }

    /// Waits for a connection.
    #[track_caller]
    pub fn accept(&self) -> Connection {
        assert!(is_ready(self.listener.as_fd(), PATIENCE), "nobody connects");
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        Connection {
            socket: Socket::of_stream(stream.into()),
            commands_request: 0,
        }
    }

    /// Accepts a producer, up to the request for commands.
    #[track_caller]
    pub fn accept_producer(&self) -> Connection {
        let mut connection = self.accept();
        connection.bind();
        let request = connection.next_call("InitializeConnection");
        connection.reply(request.request_id, &[8, 0, 16, 1, 24, 0]);
        connection.commands_request = connection.next_call("GetAsyncCommand").request_id;
        connection.next_call("RegisterDataSource");
        connection
    }
}

fn is_ready(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).unwrap();
    poll(
        &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
        Some(&timeout),
    )
    .unwrap()
        > 0
}

/// A method that the producer has invoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub request_id: u64,
    pub method: &'static str,
    pub args: Vec<u8>,
    pub drops_reply: bool,
}

/// A connection as the daemon sees it.
pub struct Connection {
    pub socket: Socket,
    pub commands_request: u64,
}

impl Connection {
    /// Returns the next frame; `None` if the producer has closed the connection.
    #[track_caller]
    fn next_frame<R>(&mut self, take: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let start = Instant::now();
        loop {
            if let Some(bytes) = self.socket.next_frame().unwrap() {
                return Some(take(Frame::decode(bytes).unwrap()));
            }
            let is_ready = is_ready(self.socket.as_fd(), PATIENCE);
            assert!(is_ready && start.elapsed() < PATIENCE, "no frame comes");
            match self.socket.receive() {
                Ok(Received::End) => return None,
                // The producer has not read everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                received => assert!(received.is_ok(), "{received:?}"),
            }
        }
    }

    /// Answers the request for the service's methods.
    #[track_caller]
    pub fn bind(&mut self) {
        self.bind_with(&METHODS);
    }

    #[track_caller]
    pub fn bind_with(&mut self, methods: &[&str]) {
        let request_id = self.next_frame(|frame| {
            assert_eq!(
                frame.body,
                Body::Bind {
                    service: "ProducerPort"
                }
            );
            frame.request_id
        });
        let bound = BoundService {
            service_id: 1,
            methods: methods.iter().copied().zip(1..).collect(),
        };
        self.send(request_id.unwrap(), Body::Bound(Some(bound)));
    }

    /// Returns the next call; `None` if the producer has closed the connection.
    #[track_caller]
    pub fn call(&mut self) -> Option<Call> {
        self.next_frame(|frame| {
            let Body::Invoke {
                service_id: 1,
                method_id,
                args,
                drops_reply,
            } = frame.body
            else {
                panic!("no call: {frame:?}");
            };
            Call {
                request_id: frame.request_id,
                method: METHODS[method_id as usize - 1],
                args: args.to_vec(),
                drops_reply,
            }
        })
    }

    /// Returns the next call of a method. Others may come before.
    #[track_caller]
    pub fn next_call(&mut self, method: &str) -> Call {
        loop {
            let call = self.call().expect("the producer has closed the connection");
            if call.method == method {
                return call;
            }
        }
    }

    /// Waits until the producer has closed the connection.
    #[track_caller]
    pub fn wait_for_end(&mut self) {
        while self.call().is_some() {}
    }

    pub fn send(&mut self, request_id: u64, body: Body<'_>) {
        let frame = Frame { request_id, body };
        self.socket.queue().push(|stream| frame.append_to(stream));
        // The producer may have gone.
        let _ = self.socket.send();
    }

    pub fn reply(&mut self, request_id: u64, reply: &[u8]) {
        let reply = Some(reply);
        let has_more = false;
        self.send(request_id, Body::Reply { reply, has_more });
    }

    fn command_frame(&self, command: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        Frame {
            request_id: self.commands_request,
            body: Body::Reply {
                reply: Some(command),
                has_more: true,
            },
        }
        .append_to(&mut frame);
        frame
    }

    /// Sends a command.
    pub fn command(&mut self, command: &[u8]) {
        let frame = self.command_frame(command);
        self.socket
            .queue()
            .push(|stream| stream.extend_from_slice(&frame));
        let _ = self.socket.send();
    }

    /// Sends a command with a descriptor.
    pub fn command_with(&mut self, command: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
        let frame = self.command_frame(command);
        let fd = fd.try_clone_to_owned()?;
        self.socket
            .queue()
            .push_with_descriptor(fd, |out| out.extend_from_slice(&frame));
        self.socket.send().map(drop)
    }

    /// Gives shared memory.
    pub fn give_memory(&mut self) -> SharedFd {
        let memory = SharedFd::create(Geometry::new(1 << 20, 4096).unwrap()).unwrap();
        self.command_with(&[0x1a, 2, 8, 4], memory.as_fd()).unwrap();
        memory
    }

    /// Sends a frame of any bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket
            .queue()
            .push(|stream| append_frame(stream, bytes));
        let _ = self.socket.send();
    }
}

/// Encodes a command with an instance and a configuration: field 6 sets up, field 1 starts.
pub fn with_config(field: u8, instance: u8, config: &[u8]) -> Vec<u8> {
    let mut inner = vec![8, instance, 0x12, config.len() as u8];
    inner.extend_from_slice(config);
    let mut command = vec![field << 3 | 2, inner.len() as u8];
    command.extend(inner);
    command
}

/// The configuration of track events in buffer 7 of session 3.
pub const CONFIG: &[u8] = b"\x0a\x0btrack_event\x10\x07\x20\x03";

/// Waits until a connection has ended or failed, and returns the reason.
#[track_caller]
pub fn reason(system: &System) -> String {
    let start = Instant::now();
    loop {
        if let SystemState::Waiting { reason, .. } = system.state() {
            return reason;
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", system.state());
        std::thread::sleep(Duration::from_millis(1));
    }
}
