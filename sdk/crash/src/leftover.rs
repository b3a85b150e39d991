//! Folders of dead processes.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracezero_core::crash_files::format::Meta;
use tracezero_core::crash_files::{FOLDER_SUFFIX, MEMORY_FILE, META_FILE, is_of_this_process};
use tracezero_service::SequenceAccount;

use crate::error::RecoverError;
use crate::folder::{entries, open_file, read_file};
use crate::memory::{DeadMemory, writer_rows};
use crate::session::{self, Process};

/// Returns what dead processes left in a directory, oldest first: the folders that contain sessions.
/// A directory that does not exist contains none. Folders of living processes, and those that
/// another process recovers at this moment, are passed over. Empty folders are removed.
///
/// # Errors
///
/// If the directory cannot be read.
pub fn leftovers(directory: impl AsRef<Path>) -> Result<Vec<Leftover>, RecoverError> {
    let directory = directory.as_ref();
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for path in entries(directory)? {
        let is_folder = path.to_string_lossy().ends_with(FOLDER_SUFFIX);
        let Some(leftover) = is_folder.then(|| Leftover::open(&path).ok()).flatten() else {
            continue;
        };
        if leftover.sessions.is_empty() {
            // The process was killed between two sessions. If the folder cannot be removed, it is
            // passed over the next time, too.
            let _ = leftover.delete();
        } else {
            found.push(leftover);
        }
    }
    found.sort_by_key(|leftover| leftover.meta.created_unix_ns);
    Ok(found)
}

/// The crash files of a dead process. While this exists, no other process recovers them.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
    meta: Meta,
    /// The file `meta`, locked.
    file: File,
    sessions: Vec<PathBuf>,
}

/// A trace that was recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveredTrace {
    /// The trace file.
    pub path: PathBuf,
    /// The size of the file.
    pub size_bytes: u64,
    /// The number of packets of writers.
    pub packets: u64,
    /// The number of track events.
    pub events: u64,
    /// What became of the packets of each sequence.
    pub sequences: Vec<SequenceAccount>,
    /// What is damaged in the files, each as a text. A kill damages nothing.
    pub damages: Vec<String>,
}

impl RecoveredTrace {
    /// Returns the number of packets that the process began and that are not in the trace.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        let lost = |account: &SequenceAccount| account.begun - account.read;
        self.sequences.iter().map(lost).sum()
    }
}

impl Leftover {
    /// Opens the folder of a dead process.
    ///
    /// # Errors
    ///
    /// [`RecoverError::InUse`] if the process lives or another process recovers its traces;
    /// [`RecoverError::NotCrashFiles`] if the folder does not contain crash files, or `meta` is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecoverError> {
        let path = path.as_ref();
        let in_use = || RecoverError::InUse {
            folder: path.to_owned(),
        };
        let not_ours = || RecoverError::NotCrashFiles {
            folder: path.to_owned(),
        };
        // A process that opens and closes its own file would lose its lock.
        if is_of_this_process(path) {
            return Err(in_use());
        }
        let meta_path = path.join(META_FILE);
        let mut options = OpenOptions::new();
        let mut file = open_file(&meta_path, options.read(true).write(true))
            .map_err(RecoverError::io(&meta_path))?;
        // The first lock is for threads of this process, the second one for other processes.
        file.try_lock().map_err(|_| in_use())?;
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::fcntl_lock(&file, lock).map_err(|_| in_use())?;
        let mut header = Vec::new();
        (&mut file)
            .take(4096)
            .read_to_end(&mut header)
            .map_err(RecoverError::io(&meta_path))?;
        let meta = Meta::decode(&header).ok_or_else(not_ours)?;
        let is_session = |path: &PathBuf| {
            path.symlink_metadata()
                .is_ok_and(|metadata| metadata.is_dir())
        };
        let mut sessions: Vec<PathBuf> = entries(path)?;
        sessions.retain(is_session);
        sessions.sort_by_key(|path| session_number(path));
        Ok(Self {
            path: path.to_owned(),
            meta,
            file,
            sessions,
        })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the process: the file name of its executable.
    #[must_use]
    pub fn process_name(&self) -> &str {
        &self.meta.process_name
    }

    /// Returns the id that the process had.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.meta.pid
    }

    /// Returns the time at which the process started its first session.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.meta.created_unix_ns)
    }

    /// Returns the number of sessions that were not finished.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Writes a trace of each session into a directory, which is created if it does not exist. The
    /// files are named `<process>-<pid>.pftrace`, and `<process>-<pid>-<n>.pftrace` from the second
    /// session on. The crash files stay: call [`delete`](Self::delete) when the traces are safe.
    ///
    /// # Errors
    ///
    /// If a trace file exists or cannot be written.
    pub fn recover_into(
        &self,
        directory: impl AsRef<Path>,
    ) -> Result<Vec<RecoveredTrace>, RecoverError> {
        let directory = directory.as_ref();
        fs::create_dir_all(directory).map_err(RecoverError::io(directory))?;
        // A damaged name must not lead out of the directory.
        let name = self.meta.process_name.replace(['/', '\0'], "_");
        let stem = format!("{name}-{}", self.meta.pid);
        let recover = |index: usize| {
            let name = match index {
                0 => format!("{stem}.pftrace"),
                _ => format!("{stem}-{}.pftrace", index + 1),
            };
            self.recover_session(index, directory.join(name))
        };
        (0..self.sessions.len()).map(recover).collect()
    }

    /// Writes the trace of the session at `index` into a new file.
    ///
    /// # Errors
    ///
    /// If the file exists or cannot be written.
    ///
    /// # Panics
    ///
    /// If there is no session at `index`.
    pub fn recover_session(
        &self,
        index: usize,
        path: impl AsRef<Path>,
    ) -> Result<RecoveredTrace, RecoverError> {
        let path = path.as_ref();
        let mut process = self.process()?;
        let recovered = session::recover(&mut process, &self.sessions[index], path)?;
        let mut damages = recovered.damages;
        if process.memory.is_none() {
            damages.push(format!("{MEMORY_FILE} is missing or damaged"));
        }
        Ok(RecoveredTrace {
            path: path.to_owned(),
            size_bytes: recovered.size_bytes,
            packets: recovered.counts.packets,
            events: recovered.counts.events,
            sequences: recovered.counts.sequences,
            damages,
        })
    }

    /// Removes the crash files.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn delete(self) -> Result<(), RecoverError> {
        fs::remove_dir_all(&self.path).map_err(RecoverError::io(&self.path))
    }

    /// Reads the files that all sessions share.
    fn process(&self) -> Result<Process, RecoverError> {
        use std::os::unix::fs::FileExt as _;
        const ROWS_MAX_BYTES: u64 = 64 << 20;
        let meta_path = self.path.join(META_FILE);
        let len = self
            .file
            .metadata()
            .map_err(RecoverError::io(&meta_path))?
            .len();
        let mut meta = vec![0; len.min(ROWS_MAX_BYTES) as usize];
        self.file
            .read_exact_at(&mut meta, 0)
            .map_err(RecoverError::io(&meta_path))?;
        let rows = writer_rows(&meta);
        let memory_bytes = u64::from(self.meta.memory_size_bytes);
        let memory = read_file(&self.path.join(MEMORY_FILE), memory_bytes)
            .ok()
            .and_then(|bytes| DeadMemory::new(&self.meta, &rows, &bytes));
        Ok(Process {
            meta: self.meta.clone(),
            rows,
            memory,
        })
    }
}

/// Returns the number in the name of a session's folder.
fn session_number(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches('s').parse().unwrap_or(u64::MAX)
}
