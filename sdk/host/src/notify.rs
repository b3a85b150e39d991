//! Tells whoever has started the daemon that it listens.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager, if there is one, that the daemon listens: sends `READY=1` to the socket
/// that the environment variable `NOTIFY_SOCKET` names.
///
/// # Errors
///
/// If nobody reads from that socket.
pub fn notify_ready() -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let socket = UnixDatagram::unbound()?;
    let address = match name.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    socket.send_to_addr(b"READY=1", &address).map(drop)
}
