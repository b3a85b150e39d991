//! A daemon inside this process, for one program and the programs that it starts.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, process};

use tracezero_consumer::Address;
use tracezero_host::{Daemon, DaemonError, DaemonOptions, Log, Stopper};

/// The prefix of the names of the daemons' folders. The process id follows.
const NAME: &str = "tracezero-record-";

/// The maximum length of the path in which the daemon's folder is created, in bytes. The path of a
/// socket in that folder may have at most 108.
const PARENT_MAX_BYTES: usize = 60;

/// How long programs wait while the disk accepts no bytes. If the disk accepts bytes slowly,
/// programs wait as long as necessary, because users of this command prefer a complete trace.
const STUCK_FILE_LIMIT: Duration = Duration::from_secs(10);

/// A daemon on a thread of this process, with sockets in a folder of its own.
#[derive(Debug)]
pub(super) struct PrivateDaemon {
    folder: PathBuf,
    stopper: Stopper,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl PrivateDaemon {
    /// Starts a daemon. With `records_all`, its sessions also record data sources that their
    /// configurations do not list.
    pub(super) fn start(records_all: bool) -> Result<Self, DaemonError> {
        let folder = new_folder()?;
        // Discards the log: the consumer also learns what the log says about its session.
        let mut options = DaemonOptions::new(Log::new(|_| ()));
        options.producer_addresses = vec![Address::Path(producers(&folder))];
        options.consumer_addresses = vec![Address::Path(consumers(&folder))];
        options.records_all = records_all;
        options.stuck_file_limit = STUCK_FILE_LIMIT;
        options.slow_file_limit = Duration::MAX;
        let daemon = Daemon::bind(options).inspect_err(|_| {
            let _ = fs::remove_dir_all(&folder);
        })?;
        let stopper = daemon.stopper();
        let thread = thread::Builder::new()
            .name("tracezero-daemon".to_owned())
            .spawn(|| daemon.run())?;
        Ok(Self {
            folder,
            stopper,
            thread: Some(thread),
        })
    }

    /// Returns the address at which consumers connect.
    pub(super) fn consumer_address(&self) -> Address {
        Address::Path(consumers(&self.folder))
    }

    /// Returns the socket at which producers connect.
    pub(super) fn producer_socket(&self) -> PathBuf {
        producers(&self.folder)
    }

    /// Returns the environment variables that make a program record for this daemon.
    pub(super) fn environment(&self) -> [(&'static str, OsString); 3] {
        [
            ("TRACEZERO_SYSTEM", "wait".into()),
            (
                "PERFETTO_PRODUCER_SOCK_NAME",
                producers(&self.folder).into_os_string(),
            ),
            (
                "PERFETTO_CONSUMER_SOCK_NAME",
                consumers(&self.folder).into_os_string(),
            ),
        ]
    }
}

impl Drop for PrivateDaemon {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // The daemon's thread has already removed its sockets.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Creates a folder that only this user can look into.
fn new_folder() -> io::Result<PathBuf> {
    let parent = match env::temp_dir() {
        long if long.as_os_str().len() > PARENT_MAX_BYTES => PathBuf::from("/tmp"),
        folder => folder,
    };
    remove_left(&parent);
    let mut number = 0;
    loop {
        let folder = parent.join(format!("{NAME}{}-{number}", process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            // The existing file or folder may belong to another user, so tries the next name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                number += 1;
            }
            created => return created.map(|()| folder),
        }
    }
}

/// Removes the folders that killed commands have left, as far as this user may remove them.
fn remove_left(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let pid = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if let Some(pid) = pid
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn producers(folder: &Path) -> PathBuf {
    folder.join("producers")
}

fn consumers(folder: &Path) -> PathBuf {
    folder.join("consumers")
}
