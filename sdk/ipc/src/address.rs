//! Where a daemon listens.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use rustix::net::SocketAddrUnix;

/// The environment variable that names the socket for producers.
pub const PRODUCER_SOCKET_VARIABLE: &str = "PERFETTO_PRODUCER_SOCK_NAME";

/// The environment variable that names the socket for consumers.
pub const CONSUMER_SOCKET_VARIABLE: &str = "PERFETTO_CONSUMER_SOCK_NAME";

/// The folder of the sockets of a daemon that the system has started.
const SYSTEM_FOLDER: &str = "/run/perfetto";

/// The address of a Unix socket, or of a host and port of a network.
///
/// ```
/// use tracezero_ipc::address::Address;
///
/// assert_eq!("/run/traced".parse(), Ok(Address::Path("/run/traced".into())));
/// assert_eq!("@traced".parse(), Ok(Address::Abstract("traced".into())));
/// assert_eq!("[::1]:32278".parse(), Ok(Address::Network("[::1]:32278".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The path of a socket.
    Path(PathBuf),
    /// A name that is in no folder. It is written with an `@` before it.
    Abstract(OsString),
    /// A host and a TCP port, `host:port` or `[address]:port`.
    Network(String),
}

/// An address that names no socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// The address is empty.
    Empty,
    /// The address is longer than the system allows, 108 bytes.
    TooLong {
        /// The address.
        address: String,
    },
    /// The address is one between virtual machines, which is not supported.
    Vsock {
        /// The address.
        address: String,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str(
                "the address of the socket is empty; give a path, `@name` or `host:port`",
            ),
            Self::TooLong { address } => write!(
                f,
                "the address {address:?} is longer than the 108 bytes of a Unix socket"
            ),
            Self::Vsock { address } => write!(
                f,
                "the address {address:?} is one between virtual machines, which is not supported; \
                 give the path of a Unix socket, `@name` or `host:port`"
            ),
        }
    }
}

impl std::error::Error for AddressError {}

impl Address {
    /// Returns the address of the daemon's socket for producers: the one in the environment variable
    /// [`PRODUCER_SOCKET_VARIABLE`], else `/run/perfetto/traced-producer.sock` if that folder exists,
    /// else `/tmp/perfetto-producer`.
    ///
    /// # Errors
    ///
    /// If the environment variable names no socket.
    pub fn of_producers() -> Result<Self, AddressError> {
        match given(PRODUCER_SOCKET_VARIABLE) {
            Some(address) => address.parse(),
            None => Ok(usual("traced-producer.sock", "/tmp/perfetto-producer")),
        }
    }

    /// Returns the addresses at which a daemon listens for producers: those in the environment
    /// variable [`PRODUCER_SOCKET_VARIABLE`], separated by commas, else the one of
    /// [`of_producers`](Self::of_producers).
    ///
    /// # Errors
    ///
    /// If the environment variable names something that is no socket.
    pub fn all_of_producers() -> Result<Vec<Self>, AddressError> {
        match given(PRODUCER_SOCKET_VARIABLE) {
            Some(addresses) => addresses.split(',').map(str::parse).collect(),
            None => Ok(vec![Self::of_producers()?]),
        }
    }

    /// Returns the address of the daemon's socket for consumers: the one in the environment variable
    /// [`CONSUMER_SOCKET_VARIABLE`], else `/run/perfetto/traced-consumer.sock` if that folder exists,
    /// else `/tmp/perfetto-consumer`.
    ///
    /// # Errors
    ///
    /// If the environment variable names no socket.
    pub fn of_consumers() -> Result<Self, AddressError> {
        match given(CONSUMER_SOCKET_VARIABLE) {
            Some(address) => address.parse(),
            None => Ok(usual("traced-consumer.sock", "/tmp/perfetto-consumer")),
        }
    }

    /// Returns the address of a Unix socket as the system takes it; `None` for a network.
    pub(crate) fn to_unix(&self) -> Option<rustix::io::Result<SocketAddrUnix>> {
        match self {
            Self::Path(path) => Some(SocketAddrUnix::new(path)),
            Self::Abstract(name) => Some(SocketAddrUnix::new_abstract_name(name.as_bytes())),
            Self::Network(_) => None,
        }
    }
}

/// Returns the value of an environment variable that is not empty.
fn given(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

fn usual(in_system_folder: &str, elsewhere: &str) -> Address {
    Address::Path(match fs::metadata(SYSTEM_FOLDER) {
        Ok(metadata) if metadata.is_dir() => Path::new(SYSTEM_FOLDER).join(in_system_folder),
        _ => elsewhere.into(),
    })
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let owned = || text.to_owned();
        let is_port = |rest: &str| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit());
        let address = match text.strip_prefix('@') {
            None | Some("") if matches!(text, "" | "@") => return Err(AddressError::Empty),
            Some(name) => Self::Abstract(name.into()),
            None if text.starts_with("vsock://") => {
                return Err(AddressError::Vsock { address: owned() });
            }
            None if text.rsplit_once(':').is_some_and(|(_, port)| is_port(port)) => {
                Self::Network(owned())
            }
            None => Self::Path(text.into()),
        };
        match address.to_unix() {
            Some(Ok(_)) | None => Ok(address),
            Some(Err(_)) => Err(AddressError::TooLong { address: owned() }),
        }
    }
}

impl TryFrom<PathBuf> for Address {
    type Error = AddressError;

    /// Returns the address of a socket with a path.
    ///
    /// # Errors
    ///
    /// If the path is empty or too long.
    fn try_from(path: PathBuf) -> Result<Self, AddressError> {
        if path.as_os_str().is_empty() {
            return Err(AddressError::Empty);
        }
        let address = Self::Path(path);
        match address.to_unix() {
            Some(Err(_)) => Err(AddressError::TooLong {
                address: address.to_string(),
            }),
            Some(Ok(_)) | None => Ok(address),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Abstract(name) => write!(f, "@{}", name.display()),
            Self::Network(address) => f.write_str(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_perfetto_reads_them() {
        let network = |text: &str| text.parse() == Ok(Address::Network(text.into()));
        assert!(network("127.0.0.1:1") && network("[::1]:32278") && network("localhost:1"));
        let error = "vsock://2:3".parse::<Address>().unwrap_err();
        assert!(matches!(error, AddressError::Vsock { .. }), "{error}");
        assert_eq!("a:b".parse(), Ok(Address::Path("a:b".into())));
        assert_eq!("@a:1".parse(), Ok(Address::Abstract("a:1".into())));
    }

    #[test]
    fn addresses_that_no_socket_can_have_are_refused() {
        assert_eq!("".parse::<Address>(), Err(AddressError::Empty));
        assert_eq!("@".parse::<Address>(), Err(AddressError::Empty));
        let long = "x".repeat(109);
        let error = long.parse::<Address>().unwrap_err();
        assert!(matches!(error, AddressError::TooLong { .. }), "{error}");
        assert!("x".repeat(108).parse::<Address>().is_ok());
    }
}
