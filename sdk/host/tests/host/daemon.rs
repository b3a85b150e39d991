//! A daemon that runs on a thread.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use support::{Folder, wait_until};
use tracezero_host::{Address, Daemon, DaemonOptions, Log, Stopper};

use crate::consumer::{Consumer, State};
use crate::peer::Peer;
use crate::producer::Producer;

/// A daemon of a test, with its sockets in a folder of the test.
pub struct TestDaemon {
    pub folder: Folder,
    pub stopper: Stopper,
    thread: Option<JoinHandle<io::Result<()>>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl TestDaemon {
    pub fn start() -> Self {
        Self::with_log(|_| ())
    }

    /// Starts a daemon that calls `note` with each line of the log, once it has the line.
    pub fn with_log(note: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::with(note, |_| (), || ())
    }

    /// Starts a daemon that all users may connect to, in a folder that they may enter.
    pub fn open_to_all() -> Self {
        let daemon = Self::with(
            |_| (),
            |options| {
                options.consumer_permissions = options.producer_permissions;
            },
            || (),
        );
        daemon.open_folder();
        daemon
    }

    /// Starts a daemon whose system refuses to create memory.
    pub fn without_memory() -> Self {
        let no_memory = || {
            let denied = BTreeMap::from([(libc::SYS_memfd_create, Vec::new())]);
            let filter = SeccompFilter::new(
                denied,
                SeccompAction::Allow,
                SeccompAction::Errno(libc::EACCES.cast_unsigned()),
                std::env::consts::ARCH.try_into().unwrap(),
            );
            let filter: BpfProgram = filter.unwrap().try_into().unwrap();
            seccompiler::apply_filter(&filter).unwrap();
        };
        Self::with(|_| (), |_| (), no_memory)
    }

    /// Lets all users enter the folder of the sockets.
    pub fn open_folder(&self) {
        let all = Permissions::from_mode(0o755);
        fs::set_permissions(self.folder.path(), all).unwrap();
    }

    fn with(
        note: impl Fn(&str) + Send + Sync + 'static,
        change: impl FnOnce(&mut DaemonOptions),
        before: impl FnOnce() + Send + 'static,
    ) -> Self {
        let folder = Folder::empty();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&log);
        let mut options = DaemonOptions::new(Log::new(move |line| {
            lines.lock().unwrap().push(line.to_owned());
            note(line);
        }));
        options.producer_addresses = vec![Address::Path(folder.file("p"))];
        options.consumer_addresses = vec![Address::Path(folder.file("c"))];
        change(&mut options);
        let daemon = Daemon::bind(options).unwrap();
        let stopper = daemon.stopper();
        let thread = std::thread::spawn(move || {
            before();
            daemon.run()
        });
        Self {
            folder,
            stopper,
            thread: Some(thread),
            log,
        }
    }

    pub fn producers(&self) -> PathBuf {
        self.folder.file("p")
    }

    pub fn consumers(&self) -> PathBuf {
        self.folder.file("c")
    }

    /// Connects a producer that has said nothing yet.
    pub fn producer_peer(&self) -> Peer {
        Peer::connect(&self.producers())
    }

    /// Connects a consumer that has said nothing yet.
    pub fn consumer_peer(&self) -> Peer {
        Peer::connect(&self.consumers())
    }

    /// Connects a producer that has introduced itself, and gets commands.
    pub fn producer(&self, name: &str) -> Producer {
        Producer::new(self.producer_peer(), name)
    }

    pub fn consumer(&self) -> Consumer {
        Consumer::new(self.consumer_peer())
    }

    /// Returns what another consumer learns of the daemon.
    pub fn state(&self) -> State {
        self.consumer().state()
    }

    /// Waits until there are so many sessions.
    #[track_caller]
    pub fn wait_for_sessions(&self, count: usize) {
        let mut consumer = self.consumer();
        wait_until(|| consumer.state().sessions.len() == count);
    }

    /// Returns the lines of the log that contain this text.
    pub fn log_lines(&self, text: &str) -> Vec<String> {
        let lines = self.log.lock().unwrap();
        lines
            .iter()
            .filter(|line| line.contains(text))
            .cloned()
            .collect()
    }

    /// Waits until the log has a line that contains this text.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        wait_until(|| !self.log_lines(text).is_empty());
    }

    /// Stops the daemon, and waits for its end.
    #[track_caller]
    pub fn stop(&mut self) {
        self.stopper.stop();
        let thread = self.thread.take().expect("it runs");
        thread
            .join()
            .expect("no panic")
            .expect("it runs to its end");
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stopper.stop();
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("no panic").expect("it runs to its end");
            }
        }
    }
}
