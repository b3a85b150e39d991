//! Errors of calls.

use std::fmt;
use std::io;
use std::time::Duration;

use protozero::DecodeError;
use tracezero_ipc::address::{
    Address, AddressError, CONSUMER_SOCKET_VARIABLE, PRODUCER_SOCKET_VARIABLE,
};
use tracezero_ipc::frame::FrameTooLong;

/// The reason why a call of a consumer has failed.
///
/// # A connection that fails
///
/// Each call may also return [`NoSuchMethod`](Self::NoSuchMethod), [`Failed`](Self::Failed),
/// [`NoAnswer`](Self::NoAnswer), [`TooLong`](Self::TooLong), [`Closed`](Self::Closed), [`Io`](Self::Io)
/// and [`Protocol`](Self::Protocol).
#[derive(Debug)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The address names no socket.
    Address(AddressError),
    /// No daemon can be reached at the address.
    Connect {
        /// The address.
        address: Address,
        /// The reason.
        source: io::Error,
    },
    /// The program that listens at this address does not have this service.
    NoSuchPort {
        /// The address.
        address: Address,
        /// The name of the service, `ConsumerPort` or `ProducerPort`.
        service: &'static str,
    },
    /// The daemon does not have this method. Daemons of older versions lack some.
    NoSuchMethod {
        /// The name of the method.
        method: &'static str,
    },
    /// The daemon has refused or ended the session, or refused the clone.
    Refused {
        /// What the daemon says.
        reason: String,
    },
    /// The daemon could not do what was asked, and does not say why.
    Failed {
        /// The name of the method.
        method: &'static str,
    },
    /// The daemon has not answered in time.
    NoAnswer {
        /// The name of the method.
        method: &'static str,
        /// The time that the call has waited.
        waited: Duration,
    },
    /// The request has more than 128 KiB, which is the limit of the protocol.
    TooLong {
        /// The name of the method.
        method: &'static str,
    },
    /// The daemon has closed the connection.
    Closed,
    /// The connection has failed.
    Io(io::Error),
    /// The daemon has sent something that does not follow the protocol.
    Protocol {
        /// What is wrong.
        reason: String,
    },
    /// The trace cannot be written to the given output.
    Output(io::Error),
}

impl ConsumerError {
    pub(crate) fn malformed(method: &'static str, error: DecodeError) -> Self {
        let reason = format!("the reply to {method} is malformed: {error}");
        Self::Protocol { reason }
    }
}

impl From<AddressError> for ConsumerError {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

impl From<FrameTooLong> for ConsumerError {
    fn from(error: FrameTooLong) -> Self {
        let reason = error.to_string();
        Self::Protocol { reason }
    }
}

impl fmt::Display for ConsumerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Connect { address, source } => {
                write!(
                    f,
                    "no tracing daemon can be reached at {address}: {source}; "
                )?;
                match source.kind() {
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("its socket is for other users: run as the user of the daemon")
                    }
                    _ => write!(
                        f,
                        "start `tracezero daemon` or `traced`, or name the sockets of one that runs in \
                         {CONSUMER_SOCKET_VARIABLE} and {PRODUCER_SOCKET_VARIABLE}"
                    ),
                }
            }
            Self::NoSuchPort { address, service } => write!(
                f,
                "what listens at {address} has no {service}; a daemon has a socket for producers and \
                 another one for consumers"
            ),
            Self::NoSuchMethod { method } => write!(
                f,
                "the daemon does not have the method {method}; a newer daemon is needed"
            ),
            Self::Refused { reason } => write!(f, "the daemon refuses: {reason}"),
            Self::Failed { method } => write!(f, "the daemon reports that {method} has failed"),
            Self::NoAnswer { method, waited } => write!(
                f,
                "the daemon has not answered {method} within {waited:?}; is it stopped, or the machine \
                 busy?"
            ),
            Self::TooLong { method } => write!(
                f,
                "the request {method} has more than 128 KiB, the limit of the protocol; make the \
                 configuration smaller"
            ),
            Self::Closed => {
                f.write_str("the daemon has closed the connection; its log may say why")
            }
            Self::Io(error) => write!(f, "the connection to the daemon has failed: {error}"),
            Self::Protocol { reason } => {
                write!(f, "the daemon does not follow the protocol: {reason}")
            }
            Self::Output(error) => write!(f, "the trace cannot be written: {error}"),
        }
    }
}

impl std::error::Error for ConsumerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(error) => Some(error),
            Self::Connect { source, .. } | Self::Io(source) | Self::Output(source) => Some(source),
            _ => None,
        }
    }
}
