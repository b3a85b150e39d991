//! A service that is bound over a connection: that of producers or of consumers.

use std::fmt;
use std::io;

use tracezero_core::received_file::ReceivedFile;
use tracezero_ipc::frame::FrameTooLong;

/// A call over a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invocation<'a> {
    pub(crate) request_id: u64,
    pub(crate) method_id: u32,
    pub(crate) args: &'a [u8],
}

/// The answer to a call.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The only reply.
    Reply(Vec<u8>),
    /// The call has failed.
    Failed,
    /// The replies come later, or have been sent.
    Later,
}

impl Answer {
    /// A reply without content.
    pub(crate) const EMPTY: Self = Self::Reply(Vec::new());
}

/// Handles the calls of one connection. Dropping it disconnects the peer from the service.
pub(crate) trait Port {
    /// The name that clients bind.
    const SERVICE: &'static str;

    /// Returns the names and numbers of the methods.
    fn methods() -> Vec<(&'static str, u32)>;

    /// Handles a call. Takes the descriptor if the call should carry one.
    fn invoke(
        &mut self,
        invocation: &Invocation<'_>,
        descriptor: &mut Option<ReceivedFile>,
    ) -> Result<Answer, EndConnection>;

    /// Returns true once the peer has made the call that it must begin with.
    fn is_introduced(&self) -> bool;
}

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum EndConnection {
    /// The peer has closed it.
    ByPeer,
    Failed(io::Error),
    FrameTooLong(FrameTooLong),
    MalformedFrames,
    /// A producer has broken the rules of the shared memory too often.
    Violations,
    /// The peer has not made its first call in time.
    NotIntroduced,
    /// The peer takes nothing that it is sent.
    Stuck,
    /// Too many bytes wait for the peer.
    QueueFull,
    /// Handling a call has panicked.
    Panicked,
}

impl fmt::Display for EndConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByPeer => f.write_str("it has closed the connection"),
            Self::Failed(error) => error.fmt(f),
            Self::FrameTooLong(error) => error.fmt(f),
            Self::MalformedFrames => f.write_str("it sends frames that are malformed"),
            Self::Violations => f.write_str("it breaks the rules of the shared memory"),
            Self::NotIntroduced => f.write_str("it has not introduced itself in time"),
            Self::Stuck => f.write_str("it reads nothing"),
            Self::QueueFull => f.write_str("it reads too slowly"),
            Self::Panicked => f.write_str("its request has made this program panic"),
        }
    }
}

impl From<io::Error> for EndConnection {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::ByPeer,
            _ => Self::Failed(error),
        }
    }
}

impl From<FrameTooLong> for EndConnection {
    fn from(error: FrameTooLong) -> Self {
        Self::FrameTooLong(error)
    }
}
