//! Folders of dead processes.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::SystemTime;

use tracezero_core::crash_files::{boot_id, is_of_this_process};

use crate::error::RecoverError;
use crate::folder::process_folders;
use crate::process_files::ProcessFiles;
use crate::recovered_trace::RecoveredTrace;

/// Returns what dead processes left in a directory, oldest first: the folders that contain sessions.
/// A directory that does not exist contains none. Folders of living processes, and those that
/// another process recovers at this moment, are passed over. Empty folders are removed.
///
/// # Errors
///
/// If the directory cannot be read.
pub fn leftovers(directory: impl AsRef<Path>) -> Result<Vec<Leftover>, RecoverError> {
    let mut found = Vec::new();
    for path in process_folders(directory.as_ref())? {
        let Ok(leftover) = Leftover::open(&path) else {
            continue;
        };
        if leftover.session_count() == 0 {
            // The process was killed between two sessions. If the folder cannot be removed, it is
            // passed over the next time, too.
            let _ = leftover.delete();
        } else {
            found.push(leftover);
        }
    }
    found.sort_by_key(Leftover::started);
    Ok(found)
}

/// The crash files of a dead process. While this exists, no other process recovers them.
#[derive(Debug)]
pub struct Leftover {
    /// The file `meta` is locked.
    files: ProcessFiles,
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
        // A process that opens and closes its own file would lose its lock.
        if is_of_this_process(path) {
            return Err(in_use());
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let files = ProcessFiles::open(path, options, false, |meta| {
            // The first lock is for threads of this process, the second one for other processes.
            meta.try_lock().map_err(|_| in_use())?;
            let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
            rustix::fs::fcntl_lock(meta, lock).map_err(|_| in_use())
        })?;
        Ok(Self { files })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Returns the name of the process: the file name of its executable.
    #[must_use]
    pub fn process_name(&self) -> &str {
        &self.files.meta.process_name
    }

    /// Returns the id that the process had.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.files.meta.pid
    }

    /// Returns the time at which the process started its first session.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.files.started()
    }

    /// Returns true if the machine was started again since the process recorded. Its files are on a
    /// disk, then, and may lack what was not on the disk when the machine ended.
    #[must_use]
    pub fn is_of_earlier_boot(&self) -> bool {
        boot_id().is_ok_and(|boot_id| boot_id != self.files.meta.boot_id)
    }

    /// Returns the number of sessions that were not finished.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.files.session_count()
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
        self.files.write_into(directory.as_ref())
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
        self.files.write_session(index, path.as_ref())
    }

    /// Removes the crash files.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn delete(self) -> Result<(), RecoverError> {
        let path = self.files.path();
        fs::remove_dir_all(path).map_err(RecoverError::io(path))
    }
}
