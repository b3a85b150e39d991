//! A man in the middle between a program and the daemon. It forwards frames, and cuts the first
//! connection after one of them.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracezero_ipc::address::Address;
use tracezero_ipc::frame::append_frame;
use tracezero_ipc::producer_port::Command;
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, Frame};

/// The sender of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Program,
    Daemon,
}

/// Where the connection is cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Counts the frames of this side.
    pub sender: Sender,
    /// The number of frames that are forwarded.
    pub after_frames: usize,
    /// True if the descriptor of the shared memory is not forwarded with its frame.
    pub keeps_descriptor: bool,
}

/// A proxy with a socket of its own.
pub struct CutProxy {
    pub socket: PathBuf,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The frames of the program and of the daemon that were forwarded in the first connection.
    frames: [AtomicUsize; 2],
    /// The number of writers that programs have registered in all connections.
    writers: AtomicUsize,
    /// The number of connections that have ended.
    ended: AtomicUsize,
    /// Taken by the first connection.
    cut: Mutex<Option<Cut>>,
    /// Cuts the first connection.
    cut_now: AtomicBool,
}

impl CutProxy {
    /// Starts a proxy that listens at `socket`.
    pub fn start(socket: PathBuf, daemon: &Path, cut: Option<Cut>) -> Self {
        let listener = UnixListener::bind(&socket).unwrap();
        let daemon = Address::Path(daemon.to_owned());
        let state = Arc::new(State {
            cut: Mutex::new(cut),
            ..State::default()
        });
        let of_thread = Arc::clone(&state);
        // The thread serves one connection at a time. It ends with the test process, or when the
        // daemon takes no connection.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_nonblocking(true).unwrap();
                let program = Socket::of_stream(stream.into());
                let Ok(daemon) = Socket::connect(&daemon) else {
                    return;
                };
                // Relaxed: the counts only tell how far the proxy is.
                let is_first = of_thread.ended.load(Ordering::Relaxed) == 0;
                let mut connection = Connection {
                    sockets: [program, daemon],
                    cut: of_thread.cut.lock().unwrap().take(),
                    state: &of_thread,
                    is_first,
                    forwarded: [0; 2],
                };
                // The error is that of a side that has closed its socket.
                while let Ok(true) = connection.turn() {}
                drop(connection);
                of_thread.ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { socket, state }
    }

    /// Returns the number of writers that programs have registered with the daemon.
    pub fn writers(&self) -> usize {
        self.state.writers.load(Ordering::Relaxed)
    }

    /// Cuts the first connection, if it has not ended.
    pub fn cut_now(&self) {
        self.state.cut_now.store(true, Ordering::Relaxed);
    }

    /// Returns true if the first connection has ended.
    pub fn has_cut(&self) -> bool {
        self.state.ended.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of frames of the program and of the daemon in the first connection.
    pub fn frames(&self) -> [usize; 2] {
        [0, 1].map(|side| self.state.frames[side].load(Ordering::Relaxed))
    }
}

/// A connection of the program and one to the daemon.
struct Connection<'a> {
    sockets: [Socket; 2],
    cut: Option<Cut>,
    state: &'a State,
    is_first: bool,
    forwarded: [usize; 2],
}

impl Connection<'_> {
    /// Forwards what there is, then waits for more. Returns false at the end.
    fn turn(&mut self) -> io::Result<bool> {
        for side in 0..2 {
            let received = self.sockets[side].receive()?;
            loop {
                if self.is_cut() {
                    return Ok(false);
                }
                let Some(frame) = self.sockets[side].next_frame().unwrap() else {
                    break;
                };
                let frame = frame.to_vec();
                self.forward(side, &frame)?;
            }
            if received == Received::End {
                return Ok(false);
            }
        }
        self.wait()
    }

    fn is_cut(&self) -> bool {
        self.is_first && self.state.cut_now.load(Ordering::Relaxed)
            || self
                .cut
                .is_some_and(|cut| self.forwarded[cut.sender as usize] == cut.after_frames)
    }

    fn forward(&mut self, side: usize, frame: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        append_frame(&mut bytes, frame);
        let descriptor = if gives_memory(frame) {
            let is_kept = self.cut.is_some_and(|cut| cut.keeps_descriptor);
            self.sockets[side].take_descriptor().filter(|_| !is_kept)
        } else {
            None
        };
        let to = &mut self.sockets[1 - side];
        match descriptor {
            Some(file) => {
                let append = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
                to.queue()
                    .push_with_descriptor(file.into_descriptor(), append);
            }
            None => to.queue().push(|out| out.extend_from_slice(&bytes)),
        }
        // A cut comes behind the whole frame.
        while !to.send()? {
            thread::yield_now();
        }
        self.forwarded[side] += 1;
        if self.is_first {
            self.state.frames[side].store(self.forwarded[side], Ordering::Relaxed);
        }
        if registers_writer(frame) {
            self.state.writers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits for either side, or for a moment: nobody wakes the thread to cut the connection.
    fn wait(&mut self) -> io::Result<bool> {
        let sockets = self.sockets.each_ref();
        let mut fds = sockets.map(|it| PollFd::new(it, PollFlags::IN));
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        poll(&mut fds, Some(&moment))?;
        Ok(true)
    }
}

/// Returns true if a frame is the command that comes with the shared memory.
fn gives_memory(frame: &[u8]) -> bool {
    let Ok(Frame {
        body: Body::Reply {
            reply: Some(reply), ..
        },
        ..
    }) = Frame::decode(frame)
    else {
        return false;
    };
    matches!(Command::decode(reply), Ok(Command::SetUpTracing { .. }))
}

/// Returns true if a frame registers a writer. The number of the method is that of Perfetto's daemon.
fn registers_writer(frame: &[u8]) -> bool {
    let body = Frame::decode(frame).map(|frame| frame.body);
    matches!(body, Ok(Body::Invoke { method_id: 6, .. }))
}
