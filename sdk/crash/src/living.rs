//! Folders of living processes.

use std::fs::{self, OpenOptions};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tracezero_core::crash_files::{
    FOLDER_SUFFIX, META_FILE, is_of_this_process, process_start_ticks,
};
use tracezero_service::SequenceAccount;

use crate::error::RecoverError;
use crate::folder::process_folders;
use crate::process_files::ProcessFiles;
use crate::recovered_trace::RecoveredTrace;
use crate::session::FoundSession;

/// Returns the living processes that have crash files in a directory, oldest first. A directory that
/// does not exist contains none.
///
/// # Errors
///
/// If the directory cannot be read.
pub fn living(directory: impl AsRef<Path>) -> Result<Vec<LivingProcess>, RecoverError> {
    let folders = process_folders(directory.as_ref())?.into_iter();
    let open = |path: PathBuf| LivingProcess::open(path).ok();
    let mut found: Vec<LivingProcess> = folders
        .filter_map(open)
        .filter(|process| process.is_running() && process.session_count() > 0)
        .collect();
    found.sort_by_key(LivingProcess::started);
    Ok(found)
}

/// The crash files of a process that may still run. They are only read: the process is not stopped,
/// and need not be able to help. It may be stuck, or stopped by a signal.
///
/// ```no_run
/// use tracezero_crash::LivingProcess;
///
/// for process in LivingProcess::find(4711)? {
///     for trace in process.copy_into("traces")? {
///         println!("{}: {} events", trace.path.display(), trace.events);
///     }
/// }
/// # Ok::<(), tracezero_crash::RecoverError>(())
/// ```
#[derive(Debug)]
pub struct LivingProcess {
    files: ProcessFiles,
}

/// The trace of a session as of one moment. Reading it yields the bytes of the trace.
#[derive(Debug)]
pub struct LiveTrace {
    /// The begin of the trace, in the files that the session has written.
    parts: Vec<io::Take<fs::File>>,
    rest: Cursor<Vec<u8>>,
    sequences: Vec<SequenceAccount>,
    damages: Vec<String>,
}

impl LivingProcess {
    /// Returns the folders of a process, found by the files that it has open. A process that does
    /// not record with crash files has none.
    ///
    /// # Errors
    ///
    /// [`RecoverError::NoSuchProcess`] if there is no such process; [`RecoverError::Io`] if the
    /// process belongs to another user.
    pub fn find(pid: u32) -> Result<Vec<Self>, RecoverError> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        if !process.exists() {
            return Err(RecoverError::NoSuchProcess { pid });
        }
        let started = process_start_ticks(&process).ok();
        let open_files = process.join("fd");
        let entries = fs::read_dir(&open_files).map_err(RecoverError::io(&open_files))?;
        let mut found: Vec<Self> = Vec::new();
        for entry in entries.flatten() {
            let Some(folder) = folder_of(&entry.path()) else {
                continue;
            };
            let is_new = found
                .iter()
                .all(|it| it.path().file_name() != folder.file_name());
            if is_new {
                // The process may have removed the folder meanwhile. A file that it has inherited or
                // recovers is of another process.
                let opened = Self::open_of(&process, &entry.path(), &folder);
                let is_own = |it: &Self| Some(it.files.meta.start_time_ticks) == started;
                found.extend(opened.filter(is_own));
            }
        }
        found.sort_by_key(Self::started);
        Ok(found)
    }

    /// Opens the folder of which a process has `meta` open. The path of the folder is that of the
    /// process, which may be in a container.
    fn open_of(process: &Path, meta: &Path, folder: &Path) -> Option<Self> {
        let meta = fs::metadata(meta).ok()?;
        let inside = folder.strip_prefix("/").ok()?;
        let paths = [folder.to_owned(), process.join("root").join(inside)];
        let is_same = |path: &&PathBuf| {
            let found = fs::metadata(path.join(META_FILE));
            found.is_ok_and(|found| (found.dev(), found.ino()) == (meta.dev(), meta.ino()))
        };
        Self::open(paths.iter().find(is_same)?).ok()
    }

    /// Opens the folder of a process.
    ///
    /// # Errors
    ///
    /// [`RecoverError::ThisProcess`] if it is the folder of the calling process;
    /// [`RecoverError::NotCrashFiles`] if it does not contain crash files.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecoverError> {
        let path = path.as_ref();
        // A process that opens and closes its own file would lose its lock.
        if is_of_this_process(path) {
            return Err(RecoverError::ThisProcess {
                folder: path.to_owned(),
            });
        }
        let files = ProcessFiles::open(path, OpenOptions::new().read(true), true, |_| Ok(()))?;
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

    /// Returns the id of the process, in its own pid namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.files.meta.pid
    }

    /// Returns the time at which the process started its first session.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.files.started()
    }

    /// Returns the number of sessions that record.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.files.session_count()
    }

    /// Writes a trace of each session into a directory, under the names that
    /// [`Leftover::recover_into`](crate::Leftover::recover_into) gives.
    ///
    /// # Errors
    ///
    /// If a trace file exists or cannot be written.
    pub fn copy_into(
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
    pub fn copy_session(
        &self,
        index: usize,
        path: impl AsRef<Path>,
    ) -> Result<RecoveredTrace, RecoverError> {
        self.files.write_session(index, path.as_ref())
    }

    /// Returns the trace of the session at `index`.
    ///
    /// # Errors
    ///
    /// If the files cannot be read.
    ///
    /// # Panics
    ///
    /// If there is no session at `index`.
    pub fn read_session(&self, index: usize) -> Result<LiveTrace, RecoverError> {
        let FoundSession {
            mut part,
            damages,
            rest,
        } = self.files.find_session(index)?;
        let mut trace = Vec::new();
        let Ok(counts) = rest.write(|batch| {
            trace.extend_from_slice(batch);
            Ok::<(), std::convert::Infallible>(())
        });
        Ok(LiveTrace {
            parts: part.take_files().map_err(RecoverError::io(self.path()))?,
            rest: Cursor::new(trace),
            sequences: counts.sequences,
            damages,
        })
    }

    /// Returns true if the process that has made the folder holds its lock.
    fn is_running(&self) -> bool {
        self.files.is_locked()
    }
}

impl LiveTrace {
    /// Returns the account of each sequence: how many packets are in the trace, and why others are
    /// not.
    #[must_use]
    pub fn sequences(&self) -> &[SequenceAccount] {
        &self.sequences
    }

    /// Returns the damaged places of the files, each as a text.
    #[must_use]
    pub fn damages(&self) -> &[String] {
        &self.damages
    }
}

impl Read for LiveTrace {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = self.parts.first_mut() {
            match part.read(buffer)? {
                0 if !buffer.is_empty() => drop(self.parts.remove(0)),
                count => return Ok(count),
            }
        }
        self.rest.read(buffer)
    }
}

/// Returns the folder of crash files that an open file is the `meta` of.
fn folder_of(open_file: &Path) -> Option<PathBuf> {
    let target = fs::read_link(open_file).ok()?;
    let folder = target.parent()?;
    let is_meta =
        target.file_name()? == META_FILE && folder.to_string_lossy().ends_with(FOLDER_SUFFIX);
    is_meta.then(|| folder.to_owned())
}
