//! Where a daemon listens.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use rustix::net::SocketAddrUnix;

/// The environment variable that names the socket for producers.
pub const PRODUCER_SOCKET_VARIABLE: &str = "PERFETTO_PRODUCER_SOCK_NAME";

/// The folder of the sockets of a daemon that the system has started.
const SYSTEM_FOLDER: &str = "/run/perfetto";

/// The address of a Unix socket.
///
/// ```
/// use tracezero_ipc::address::Address;
///
/// assert_eq!("/run/traced".parse(), Ok(Address::Path("/run/traced".into())));
/// assert_eq!("@traced".parse(), Ok(Address::Abstract("traced".into())));
/// assert!("127.0.0.1:32278".parse::<Address>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The path of a socket.
    Path(PathBuf),
    /// A name that is in no folder. It is written with an `@` before it.
    Abstract(OsString),
}

/// An address that names no Unix socket.
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
    /// The address is one of a network, which is not supported.
    Network {
        /// The address.
        address: String,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                f.write_str("the address of the socket is empty; give a path or `@name`")
            }
            Self::TooLong { address } => write!(
                f,
                "the address {address:?} is longer than the 108 bytes of a Unix socket"
            ),
            Self::Network { address } => write!(
                f,
                "the address {address:?} is one of a network; only Unix sockets are supported"
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
    /// If the environment variable names no Unix socket.
    pub fn of_producers() -> Result<Self, AddressError> {
        match env::var(PRODUCER_SOCKET_VARIABLE) {
            Ok(address) if !address.is_empty() => address.parse(),
            _ if fs::metadata(SYSTEM_FOLDER).is_ok_and(|it| it.is_dir()) => Ok(Self::Path(
                Path::new(SYSTEM_FOLDER).join("traced-producer.sock"),
            )),
            _ => Ok(Self::Path("/tmp/perfetto-producer".into())),
        }
    }

    /// Returns the address as the system takes it.
    pub(crate) fn to_unix(&self) -> rustix::io::Result<SocketAddrUnix> {
        match self {
            Self::Path(path) => SocketAddrUnix::new(path),
            Self::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let owned = || text.to_owned();
        let is_port = |rest: &str| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit());
        let address = match text.strip_prefix('@') {
            None | Some("") if matches!(text, "" | "@") => return Err(AddressError::Empty),
            Some(name) => Self::Abstract(name.into()),
            None if text.starts_with("vsock://")
                || text.rsplit_once(':').is_some_and(|(_, port)| is_port(port)) =>
            {
                return Err(AddressError::Network { address: owned() });
            }
            None => Self::Path(text.into()),
        };
        match address.to_unix() {
            Ok(_) => Ok(address),
            Err(_) => Err(AddressError::TooLong { address: owned() }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Abstract(name) => write!(f, "@{}", name.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_perfetto_reads_them() {
        let network =
            |text: &str| matches!(text.parse::<Address>(), Err(AddressError::Network { .. }));
        assert!(network("127.0.0.1:1") && network("[::1]:32278") && network("vsock://2:3"));
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
