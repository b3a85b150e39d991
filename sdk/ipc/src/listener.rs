//! Takes connections at an address.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::process::{getegid, geteuid};

use crate::address::Address;
use crate::socket::{Peer, Socket};

/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// The permissions of a socket. As with files, the owner is the user of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// The permission bits, such as `0o600`. Users need those for writing to connect.
    pub mode: u32,
    /// The group of the socket; `None` for that of this process.
    pub gid: Option<u32>,
}

impl Permissions {
    /// Returns true if a process may connect, as the system decides for sockets that have a path.
    fn admit(self, peer: Peer, own: (u32, u32)) -> bool {
        let (own_uid, own_gid) = own;
        let bits = if peer.uid == own_uid {
            self.mode >> 6
        } else if peer.gid == self.gid.unwrap_or(own_gid) {
            self.mode >> 3
        } else {
            self.mode
        };
        peer.uid == 0 || bits & 0o2 != 0
    }
}

/// A socket that takes connections. If it has a path, dropping it removes the path.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: Address,
    permissions: Permissions,
    /// The device and number of the file at the path, if the socket has one.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Listens at `address`. A socket that has a path never has more than these permissions, not
    /// even for a moment. Of a socket that has a name alone, whoever takes connections
    /// [checks](Self::admits) the permissions.
    ///
    /// Replaces a socket that nobody listens on, which a process has left behind.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if somebody listens there already, `AlreadyExists` if something else than a socket is
    /// at the path, `InvalidInput` for an address of a network if not all users may connect; others if the
    /// system refuses.
    pub fn bind(address: &Address, permissions: Permissions) -> io::Result<Self> {
        if let Address::Network(address) = address {
            if permissions.mode & 0o2 == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "nobody knows which user connects over a network, and the permissions do not let \
                     all users connect",
                ));
            }
            let listener = TcpListener::bind(address.as_str())?;
            listener.set_nonblocking(true)?;
            return Ok(Self {
                fd: listener.into(),
                address: Address::Network(address.clone()),
                permissions,
                file: None,
            });
        }
        if let Address::Path(path) = address {
            remove_left_behind(address, path)?;
        }
        let mut listener = Self {
            fd: Self::bind_unix(address)?,
            address: address.clone(),
            permissions,
            file: None,
        };
        if let Address::Path(path) = address {
            let metadata = fs::symlink_metadata(path)?;
            // From here on, an error removes the path.
            listener.file = Some((metadata.dev(), metadata.ino()));
        }
        net::listen(&listener.fd, BACKLOG)?;
        if let Address::Path(path) = address {
            if permissions.gid.is_some() {
                chown(path, None, permissions.gid)?;
            }
            fs::set_permissions(path, fs::Permissions::from_mode(permissions.mode))?;
        }
        Ok(listener)
    }

    /// Returns a socket that has its address, but to which nobody may connect yet.
    fn bind_unix(address: &Address) -> io::Result<OwnedFd> {
        let unix = address.to_unix().ok_or(Errno::AFNOSUPPORT)??;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The file gets the bits of the socket. Nobody may connect before it has its group.
        fchmod(&fd, Mode::empty())?;
        net::bind(&fd, &unix)?;
        Ok(fd)
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns true if peers are on a network: they cannot share memory, and nobody knows their users.
    #[must_use]
    pub fn is_network(&self) -> bool {
        matches!(self.address, Address::Network(_))
    }

    /// Returns true if the permissions let a process connect. For a socket that has a path, the system
    /// has decided that.
    #[must_use]
    pub fn admits(&self, peer: Peer) -> bool {
        let own = (geteuid().as_raw(), getegid().as_raw());
        !matches!(self.address, Address::Abstract(_)) || self.permissions.admit(peer, own)
    }

    /// Accepts a connection; `None` if nobody waits.
    ///
    /// # Errors
    ///
    /// If the process or the system has too many descriptors, or the peer has gone.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match net::accept_with(&self.fd, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                accepted => {
                    let fd = accepted?;
                    if self.is_network() {
                        // Commands are small, and producers wait for them.
                        net::sockopt::set_tcp_nodelay(&fd, true)?;
                    }
                    return Ok(Some(Socket::of_stream(fd)));
                }
            }
        }
    }
}

/// Removes the socket of a process that has not removed it.
fn remove_left_behind(address: &Address, path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    match Socket::connect(address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        // It listens, whoever may connect to it.
        Ok(_) | Err(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Address::Path(path) = &self.address else {
            return;
        };
        // Another process may listen at the path by now.
        let is_own =
            fs::symlink_metadata(path).is_ok_and(|it| Some((it.dev(), it.ino())) == self.file);
        if is_own {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Permissions = Permissions {
        mode: 0o600,
        gid: None,
    };

    /// A path that no other test has, in a folder that is removed.
    struct Place(std::path::PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ipc-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn address(&self) -> Address {
            Address::Path(self.0.join("socket"))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_socket_has_its_permissions_and_goes_with_its_listener() {
        let place = Place::new("permissions");
        let path = place.0.join("socket");
        let listener = Listener::bind(&place.address(), OWN).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(listener.accept().unwrap().is_none());
        let _client = Socket::connect(&place.address()).unwrap();
        assert!(listener.accept().unwrap().is_some());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn permissions_decide_as_those_of_files() {
        let own = (1000, 100);
        for (mode, gid, uid, peer_gid, is_admitted) in [
            (0o600, None, 1000, 100, true),
            (0o600, None, 0, 0, true),
            (0o600, None, 2000, 100, false),
            (0o660, None, 2000, 100, true),
            (0o660, Some(7), 2000, 100, false),
            (0o660, Some(7), 2000, 7, true),
            (0o666, None, 2000, 200, true),
            (0o644, None, 2000, 200, false),
            (0o066, None, 1000, 100, false),
        ] {
            let peer = Peer {
                uid,
                gid: peer_gid,
                pid: None,
            };
            let permissions = Permissions { mode, gid };
            assert_eq!(
                permissions.admit(peer, own),
                is_admitted,
                "{mode:o} {peer:?}"
            );
        }
    }

    #[test]
    fn a_socket_without_a_path_has_its_permissions() {
        let name = format!("tracezero-permissions-{}", std::process::id());
        let address: Address = format!("@{name}").parse().unwrap();
        let listener = Listener::bind(&address, OWN).unwrap();
        let client = Socket::connect(&address).unwrap();
        let own = client.peer().unwrap();
        assert!(listener.admits(own));
        let other = Peer {
            uid: own.uid + 1,
            ..own
        };
        assert!(!listener.admits(other));
        let network = "127.0.0.1:0".parse().unwrap();
        let error = Listener::bind(&network, OWN).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let all = Permissions { mode: 0o666, ..OWN };
        assert!(Listener::bind(&network, all).is_ok());
    }

    #[test]
    fn a_socket_that_somebody_listens_on_is_not_replaced() {
        let place = Place::new("in-use");
        let listener = Listener::bind(&place.address(), OWN).unwrap();
        let error = Listener::bind(&place.address(), OWN).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(Socket::connect(&place.address()).is_ok());
        drop(listener);
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_other_files_are_not() {
        let place = Place::new("left");
        let path = place.0.join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Listener::bind(&place.address(), OWN).unwrap());
        fs::write(&path, "a file").unwrap();
        let error = Listener::bind(&place.address(), OWN).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"a file");
    }

    #[test]
    fn a_listener_leaves_the_socket_of_another_one() {
        let place = Place::new("replaced");
        let path = place.0.join("socket");
        let old = Listener::bind(&place.address(), OWN).unwrap();
        fs::remove_file(&path).unwrap();
        let new = Listener::bind(&place.address(), OWN).unwrap();
        drop(old);
        assert!(path.exists());
        drop(new);
    }
}
