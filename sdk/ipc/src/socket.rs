//! A socket that sends and receives frames. A frame may carry a file descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendFlags, SocketFlags, SocketType,
};

use tracezero_core::received_file::{ClosingFiles, ReceivedFile};

use crate::address::Address;
use crate::frame::{FrameReader, FrameTooLong};
use crate::send_queue::SendQueue;

/// The longest time that a connection attempt waits for a network address to answer.
const NETWORK_LIMIT: Duration = Duration::from_secs(5);

/// The maximum number of files of a peer that are being closed. If the peer sends another file
/// then, its connection fails. The limit is needed because a file system may never answer: each
/// file that is being closed occupies a thread and a descriptor.
pub const CLOSING_FILES_MAX: usize = 64;

/// A connected, non-blocking socket.
///
/// The socket keeps only the last descriptor that has arrived, until it is
/// [taken](Self::take_descriptor). So at most one frame with a descriptor may be under way.
#[derive(Debug)]
pub struct Socket {
    fd: Arc<OwnedFd>,
    frames: FrameReader,
    descriptor: Option<ReceivedFile>,
    /// Counts the files of the peer that are being closed.
    closing: ClosingFiles,
    /// The bytes that are queued and not yet sent, because the kernel's socket buffer was full.
    unsent: SendQueue,
}

/// A frame that has arrived, and the last descriptor that has arrived.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The frame, without its length.
    pub frame: &'a [u8],
    /// The descriptor, if one has arrived and nobody has taken it.
    pub descriptor: &'a mut Option<ReceivedFile>,
}

/// The outcome of an attempt to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes have arrived.
    Bytes,
    /// No bytes are there at the moment.
    Nothing,
    /// The peer has closed the connection.
    End,
}

/// The user and process at the other end of a socket, when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user id.
    pub uid: u32,
    /// The primary group id.
    pub gid: u32,
    /// The process id, in the namespace of this process; `None` if the process is in another one.
    pub pid: Option<u32>,
}

impl Socket {
    /// Connects to a daemon. Only a connection over a network may have to wait.
    ///
    /// # Errors
    ///
    /// If no daemon listens at the address, if the daemon does not answer in time, or if too many
    /// connections wait for the daemon to accept them.
    pub fn connect(address: &Address) -> io::Result<Self> {
        match address.to_unix() {
            Some(unix) => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                net::connect(&fd, &unix?)?;
                Ok(Self::of_stream(fd))
            }
            None => Self::connect_network(&address.to_string()),
        }
    }

    fn connect_network(address: &str) -> io::Result<Self> {
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, NETWORK_LIMIT) {
                Ok(stream) => {
                    stream.set_nonblocking(true)?;
                    // Send small messages at once, because the daemon waits for such answers.
                    stream.set_nodelay(true)?;
                    return Ok(Self::of_stream(stream.into()));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Wraps a stream, which must be connected and non-blocking.
    #[must_use]
    pub fn of_stream(fd: OwnedFd) -> Self {
        Self {
            fd: Arc::new(fd),
            frames: FrameReader::new(),
            descriptor: None,
            closing: ClosingFiles::default(),
            unsent: SendQueue::default(),
        }
    }

    /// Uses `closing`, which other connections may share, to count the files of the peer that are
    /// being closed.
    #[must_use]
    pub fn counting_in(mut self, closing: ClosingFiles) -> Self {
        self.closing = closing;
        self
    }

    /// Returns the descriptor of the socket.
    #[must_use]
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// Returns the user and process at the other end.
    ///
    /// # Errors
    ///
    /// If the system does not know.
    pub fn peer(&self) -> io::Result<Peer> {
        let credentials = net::sockopt::socket_peercred(&self.fd)?;
        Ok(Peer {
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
            pid: u32::try_from(credentials.pid.as_raw_pid())
                .ok()
                .filter(|pid| *pid > 0),
        })
    }

    /// Receives the bytes that have arrived, as far as there is room. Call
    /// [`next_frame`](Self::next_frame) before, until it returns `None`.
    ///
    /// # Errors
    ///
    /// If the connection has failed, or the peer has sent more descriptors at once than allowed, or
    /// one more while [`CLOSING_FILES_MAX`] files are being closed.
    pub fn receive(&mut self) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let room = self.frames.room();
            let mut slices = [IoSliceMut::new(room)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match net::recvmsg(&self.fd, &mut slices, &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                // The peer has closed the connection before it had read all bytes sent to it.
                Err(Errno::CONNRESET) => return Ok(Received::End),
                received => break received?,
            }
        };
        let is_full = self.closing.count() >= CLOSING_FILES_MAX;
        let mut has_sent_file = false;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                // Each descriptor becomes a `ReceivedFile`, so that another thread closes it. A
                // new descriptor replaces, and so closes, one that nobody has taken.
                for descriptor in descriptors {
                    has_sent_file = true;
                    self.descriptor = Some(ReceivedFile::new(descriptor, &self.closing));
                }
            }
        }
        if is_full && has_sent_file {
            return Err(io::Error::other(
                "too many files that it has sent are still being closed",
            ));
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other(
                "the peer has sent several descriptors at once",
            ));
        }
        self.frames.received(received.bytes);
        Ok(match received.bytes {
            0 => Received::End,
            _ => Received::Bytes,
        })
    }

    /// Returns the next frame that was received; `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// If the frame is too long. After this error, the connection cannot be used any more.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameTooLong> {
        self.frames.next_frame()
    }

    /// Returns the next frame, like [`next_frame`](Self::next_frame), and the last descriptor that
    /// has arrived. If the frame should carry a descriptor, the caller takes it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`next_frame`](Self::next_frame).
    pub fn next_frame_with_descriptor(&mut self) -> Result<Option<Arrived<'_>>, FrameTooLong> {
        let frame = self.frames.next_frame()?;
        Ok(frame.map(|frame| Arrived {
            frame,
            descriptor: &mut self.descriptor,
        }))
    }

    /// Takes the last descriptor that has arrived.
    pub fn take_descriptor(&mut self) -> Option<ReceivedFile> {
        self.descriptor.take()
    }

    /// Returns the queue of the frames to send. [`send`](Self::send) sends them.
    pub fn queue(&mut self) -> &mut SendQueue {
        &mut self.unsent
    }

    /// Returns the number of bytes that are queued and not sent.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.len_bytes()
    }

    /// Sends the queued bytes, as far as the socket has room. Returns true if nothing is left.
    ///
    /// # Errors
    ///
    /// If the connection has failed.
    pub fn send(&mut self) -> io::Result<bool> {
        while !self.unsent.is_empty() {
            let (bytes, descriptor) = self.unsent.next();
            match self.send_some(bytes, descriptor) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                sent => {
                    let sent = sent?;
                    self.unsent.sent(sent);
                }
            }
        }
        Ok(true)
    }

    fn send_some(
        &self,
        bytes: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|descriptor| [descriptor]);
        if let Some(descriptors) = &descriptors {
            ancillary.push(net::SendAncillaryMessage::ScmRights(descriptors));
        }
        let slices = [IoSlice::new(bytes)];
        net::sendmsg(&self.fd, &slices, &mut ancillary, SendFlags::NOSIGNAL)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::frame::append_frame;

    fn pair() -> [Socket; 2] {
        let (one, other) = UnixStream::pair().unwrap();
        [one, other].map(|stream| {
            stream.set_nonblocking(true).unwrap();
            Socket::of_stream(stream.into())
        })
    }

    #[test]
    fn frames_arrive_whole_through_a_small_socket() {
        const FRAMES: usize = 100;
        let [mut one, mut other] = pair();
        for number in 0..FRAMES {
            one.queue()
                .push(|out| append_frame(out, &vec![number as u8; 100_000]));
        }
        let mut number = 0;
        loop {
            let is_sent = one.send().unwrap();
            while other.receive().unwrap() == Received::Bytes {
                while let Some(frame) = other.next_frame().unwrap() {
                    assert!(frame.len() == 100_000 && frame[0] == number as u8);
                    number += 1;
                }
            }
            if is_sent && number == FRAMES {
                break;
            }
        }
        drop(one);
        assert_eq!(other.receive().unwrap(), Received::End);
    }

    #[test]
    fn a_descriptor_comes_with_its_frame() {
        let [mut one, mut other] = pair();
        let file = std::fs::File::open("/dev/null").unwrap();
        one.queue().push_with_descriptor(file.into(), |out| {
            append_frame(out, b"with a file");
        });
        assert!(one.send().unwrap());
        assert_eq!(other.receive().unwrap(), Received::Bytes);
        assert_eq!(other.next_frame().unwrap(), Some(&b"with a file"[..]));
        assert!(other.take_descriptor().is_some());
        assert!(other.take_descriptor().is_none());
    }

    #[test]
    fn the_peer_is_the_own_process() {
        let [one, _other] = pair();
        let own = Peer {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            pid: Some(std::process::id()),
        };
        assert_eq!(one.peer().unwrap(), own);
    }
}
