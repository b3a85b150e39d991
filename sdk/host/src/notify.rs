//! Tells whoever has started the daemon that it listens.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracezero_core::inherited_descriptor;

/// The environment variable by which a service manager names its socket.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The environment variable by which Perfetto's programs name a descriptor.
const DESCRIPTOR_VARIABLE: &str = "TRACED_NOTIFY_FD";

/// Tells whoever has started the daemon that it listens. Sends `READY=1` to the socket that the
/// environment variable `NOTIFY_SOCKET` names, if it is set. Writes the byte `1` to the inherited
/// descriptor whose number is in `TRACED_NOTIFY_FD`, if it is set, and closes the descriptor.
///
/// # Errors
///
/// If the socket or the descriptor cannot be written to. The error names the variable.
pub fn notify_ready() -> io::Result<()> {
    let named =
        |variable, error: io::Error| io::Error::new(error.kind(), format!("{variable}: {error}"));
    let by_socket = match given(SOCKET_VARIABLE) {
        Some(name) => send_ready(&name).map_err(|error| named(SOCKET_VARIABLE, error)),
        None => Ok(()),
    };
    let by_descriptor = match given(DESCRIPTOR_VARIABLE) {
        Some(number) => write_ready(&number).map_err(|error| named(DESCRIPTOR_VARIABLE, error)),
        None => Ok(()),
    };
    by_socket.and(by_descriptor)
}

/// Returns the value of an environment variable that is not empty.
fn given(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|value| !value.is_empty())
}

fn send_ready(name: &OsStr) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    let address = match name.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    socket.send_to_addr(b"READY=1", &address).map(drop)
}

fn write_ready(number: &OsStr) -> io::Result<()> {
    let parsed = number.to_str().and_then(|it| it.parse().ok());
    let Some(number) = parsed else {
        let message = format!("{} is not the number of a descriptor", number.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    };
    let descriptor = inherited_descriptor::take(number)?;
    File::from(descriptor).write_all(b"1")
}
