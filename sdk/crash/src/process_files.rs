//! The folder of a process, dead or living.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracezero_core::crash_files::format::{HEADER_BYTES, Meta};
use tracezero_core::crash_files::{MEMORY_FILE, META_FILE};
use tracezero_core::shm::layout::MEMORY_SIZE_MAX_BYTES;

use crate::error::RecoverError;
use crate::folder::{entries, open_file, read_file};
use crate::memory::{MemoryCopy, writer_rows};
use crate::recovered_trace::RecoveredTrace;
use crate::session::{FoundSession, Process};
use crate::settled::settled_memory;

/// The files of a process.
#[derive(Debug)]
pub(crate) struct ProcessFiles {
    path: PathBuf,
    pub(crate) meta: Meta,
    /// The file `meta`.
    file: File,
    sessions: Vec<PathBuf>,
    /// True if the process may change its files meanwhile.
    is_living: bool,
}

impl ProcessFiles {
    /// Opens the folder of a process. `options` open the file `meta`; `check` may refuse it.
    pub(crate) fn open(
        path: &Path,
        options: &mut OpenOptions,
        is_living: bool,
        check: impl FnOnce(&File) -> Result<(), RecoverError>,
    ) -> Result<Self, RecoverError> {
        let meta_path = path.join(META_FILE);
        let file = open_file(&meta_path, options).map_err(RecoverError::io(&meta_path))?;
        check(&file)?;
        let mut header = Vec::new();
        (&file)
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut header)
            .map_err(RecoverError::io(&meta_path))?;
        let meta = Meta::decode(&header).ok_or_else(|| RecoverError::NotCrashFiles {
            folder: path.to_owned(),
        })?;
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
            is_living,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.meta.created_unix_ns)
    }

    pub(crate) fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Writes a trace of each session into a directory, which is created if it does not exist.
    pub(crate) fn write_into(&self, directory: &Path) -> Result<Vec<RecoveredTrace>, RecoverError> {
        fs::create_dir_all(directory).map_err(RecoverError::io(directory))?;
        // A damaged name must not lead out of the directory.
        let name = self.meta.process_name.replace(['/', '\0'], "_");
        let stem = format!("{name}-{}", self.meta.pid);
        let write = |index: usize| {
            let name = match index {
                0 => format!("{stem}.pftrace"),
                _ => format!("{stem}-{}.pftrace", index + 1),
            };
            self.write_session(index, &directory.join(name))
        };
        (0..self.sessions.len()).map(write).collect()
    }

    /// Writes the trace of the session at `index` into a new file.
    pub(crate) fn write_session(
        &self,
        index: usize,
        path: &Path,
    ) -> Result<RecoveredTrace, RecoverError> {
        self.find_session(index)?.write_to_file(path)
    }

    /// Reads the session at `index`.
    pub(crate) fn find_session(&self, index: usize) -> Result<FoundSession, RecoverError> {
        let mut process = self.process()?;
        let mut found = FoundSession::find(&mut process, &self.sessions[index])?;
        if process.memory.is_none() {
            found
                .damages
                .push(format!("{MEMORY_FILE} is missing or damaged"));
        }
        Ok(found)
    }

    /// Returns true if a process holds the lock of `meta`: the process that has made the folder, or
    /// one that recovers it.
    pub(crate) fn is_locked(&self) -> bool {
        use rustix::fs::{FlockOperation, fcntl_lock};
        let is_locked = fcntl_lock(&self.file, FlockOperation::NonBlockingLockShared).is_err();
        if !is_locked {
            // If this fails, the lock is released when the file is closed.
            let _ = fcntl_lock(&self.file, FlockOperation::NonBlockingUnlock);
        }
        is_locked
    }

    /// Reads the files that all sessions share.
    fn process(&self) -> Result<Process, RecoverError> {
        const ROWS_MAX_BYTES: u64 = 64 << 20;
        let meta_path = self.path.join(META_FILE);
        let io = || RecoverError::io(&meta_path);
        let len = self.file.metadata().map_err(io())?.len();
        let mut meta = vec![0; len.min(ROWS_MAX_BYTES) as usize];
        self.file.read_exact_at(&mut meta, 0).map_err(io())?;
        let rows = writer_rows(&meta);
        let memory_path = self.path.join(MEMORY_FILE);
        let memory_bytes = self.meta.memory_size_bytes as usize;
        let memory_bytes = memory_bytes.min(MEMORY_SIZE_MAX_BYTES) as u64;
        let read = || read_file(&memory_path, memory_bytes).ok();
        let memory = if self.is_living {
            let copies = || Some([read()?, read()?, read()?]);
            copies().and_then(|copies| settled_memory(&self.meta, copies))
        } else {
            read()
        };
        let memory = memory.and_then(|bytes| MemoryCopy::new(&self.meta, &rows, &bytes));
        Ok(Process {
            meta: self.meta.clone(),
            rows,
            memory,
            is_living: self.is_living,
        })
    }
}

/// Returns the number in the name of a session's folder.
fn session_number(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches('s').parse().unwrap_or(u64::MAX)
}
