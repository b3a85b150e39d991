//! Notices that a daemon has made its socket, so that nobody waits for the next attempt.

use std::ffi::{CStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use tracezero_ipc::address::Address;

/// The size of the memory for events, in bytes: several with the longest possible name.
const EVENTS_BYTES: usize = 2048;

/// Watches the folder of a socket.
#[derive(Debug)]
pub(crate) struct SocketWatch {
    inotify: OwnedFd,
    socket_name: OsString,
}

impl SocketWatch {
    /// Watches for the socket of an address. `None` if it is in no folder that exists, or if the
    /// system has no more watches.
    pub(crate) fn new(address: &Address) -> Option<Self> {
        let Address::Path(path) = address else {
            return None;
        };
        let folder = match path.parent()? {
            folder if folder.as_os_str().is_empty() => Path::new("."),
            folder => folder,
        };
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let what = WatchFlags::CREATE | WatchFlags::MOVED_TO;
        inotify::add_watch(&inotify, folder, what).ok()?;
        Some(Self {
            inotify,
            socket_name: path.file_name()?.to_owned(),
        })
    }

    /// Reads all events so far. Returns true if one says that the socket was made.
    pub(crate) fn was_made(&self) -> bool {
        let mut space = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut events = Reader::new(&self.inotify, &mut space);
        let mut was_made = false;
        // Ends when no event is left.
        while let Ok(event) = events.next() {
            let name = event.file_name().map(CStr::to_bytes);
            was_made |= name == Some(self.socket_name.as_bytes());
        }
        was_made
    }
}

impl AsFd for SocketWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_socket_alone_is_noticed() {
        let folder = std::env::temp_dir().join(format!("tracezero-watch-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let watch = SocketWatch::new(&Address::Path(folder.join("socket"))).unwrap();
        fs::write(folder.join("other"), "").unwrap();
        assert!(!watch.was_made());
        fs::write(folder.join("socket"), "").unwrap();
        assert!(watch.was_made() && !watch.was_made());
        fs::rename(folder.join("other"), folder.join("socket")).unwrap();
        assert!(watch.was_made());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_outside_of_folders_and_missing_folders_are_not_watched() {
        assert!(SocketWatch::new(&Address::Abstract("socket".into())).is_none());
        assert!(SocketWatch::new(&Address::Path("/missing/socket".into())).is_none());
    }
}
