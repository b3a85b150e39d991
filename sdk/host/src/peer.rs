//! The identity of the process at the other end of a connection.

use std::fmt;
use std::io;

use tracezero_ipc::listener::Listener;
use tracezero_ipc::socket::Socket;
use tracezero_service::trace_buffer::ClientIdentity;

/// The user that peers on a network count as. No user of the machine has this number.
const NETWORK_UID: u32 = u32::MAX;

/// The process at the other end of a connection, as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The user whose limits and sessions it has.
    pub(crate) uid: u32,
    /// The user and process for traces.
    pub(crate) identity: ClientIdentity,
    /// True if it is on a network, so that it cannot share memory.
    pub(crate) is_on_network: bool,
}

impl Peer {
    /// Returns who has connected.
    ///
    /// # Errors
    ///
    /// If the process has gone, or may not connect.
    pub(crate) fn of(socket: &Socket, listener: &Listener) -> io::Result<Self> {
        if listener.is_network() {
            return Ok(Self {
                uid: NETWORK_UID,
                identity: ClientIdentity::default(),
                is_on_network: true,
            });
        }
        let peer = socket.peer()?;
        if !listener.admits(peer) {
            let reason = format!("user {} may not connect", peer.uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(Self {
            uid: peer.uid,
            identity: ClientIdentity {
                uid: Some(peer.uid),
                pid: peer.pid,
            },
            is_on_network: false,
        })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_on_network {
            return f.write_str("on the network");
        }
        write!(f, "of user {}", self.uid)?;
        match self.identity.pid {
            Some(pid) => write!(f, ", process {pid}"),
            None => Ok(()),
        }
    }
}
