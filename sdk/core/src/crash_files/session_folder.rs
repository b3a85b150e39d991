//! The folder of one session.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::directory::new_file;
use super::error::CrashFilesError;
use super::folder::ProcessFolder;
use super::format::Output;
use crate::forked_child;

/// The name of the file with the packets of the service.
pub const PREAMBLE_FILE: &str = "preamble";
/// The begin of the names of files with parts that were taken out of the buffers. A number follows.
pub const PART_PREFIX: &str = "part";
/// The name of the file that names the trace file of a session.
pub const OUTPUT_FILE: &str = "output";

/// The folder of one session. Removed when the session and its buffers are dropped.
#[derive(Debug)]
pub struct SessionFolder {
    process: Arc<ProcessFolder>,
    path: PathBuf,
    preamble: File,
    rings: AtomicU32,
    parts: AtomicU32,
    unfinished: AtomicU32,
}

/// The file of a part that was taken out of the buffers. Removed when this is dropped.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !forked_child::is_disabled() {
            // A file that cannot be removed goes with the folder of the session.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl SessionFolder {
    /// Creates the folder of a session in that of the process.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn create(process: &Arc<ProcessFolder>) -> Result<Arc<Self>, CrashFilesError> {
        let path = process.path().join(format!("s{}", process.next_session()));
        let io = || CrashFilesError::io(&path);
        DirBuilder::new().mode(0o700).create(&path).map_err(io())?;
        let preamble = new_file(&path.join(PREAMBLE_FILE)).map_err(io())?;
        Ok(Arc::new(Self {
            process: Arc::clone(process),
            path,
            preamble,
            rings: AtomicU32::new(0),
            parts: AtomicU32::new(0),
            unfinished: AtomicU32::new(0),
        }))
    }

    /// Appends packets of the service, as a trace has them.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn append_packets(&self, packets: &[u8]) -> io::Result<()> {
        (&self.preamble).write_all(packets)
    }

    /// Notes the file that the session streams its trace into, for a recovery.
    ///
    /// # Errors
    ///
    /// If the file has no absolute path, or the note cannot be written.
    pub fn note_output(&self, path: &Path, file: &File) -> io::Result<()> {
        let metadata = file.metadata()?;
        let output = Output {
            device: metadata.dev(),
            inode: metadata.ino(),
            path: std::path::absolute(path)?,
        };
        new_file(&self.path.join(OUTPUT_FILE))?.write_all(&output.encode())
    }

    /// Writes a part of the trace that was taken out of the buffers. The file appears when it is
    /// complete.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add_part(&self, trace: &[u8]) -> io::Result<PartFile> {
        // Relaxed: a number that orders nothing else.
        let number = self.parts.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{PART_PREFIX}{number}"));
        self.write_file(&path, |file| file.write_all(trace))?;
        Ok(PartFile { path })
    }

    /// Writes a file that appears at `path` when it is complete.
    pub(super) fn write_file(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<File> {
        let unfinished = self.next_unfinished();
        let written = new_file(&unfinished).and_then(|mut file| {
            write(&mut file)?;
            fs::rename(&unfinished, path)?;
            Ok(file)
        });
        written.inspect_err(|_| {
            // If it cannot be removed, it goes with the folder of the session.
            let _ = fs::remove_file(&unfinished);
        })
    }

    /// Returns the path of a file that gets another name when it is complete.
    fn next_unfinished(&self) -> PathBuf {
        // Relaxed: a number that orders nothing else.
        let number = self.unfinished.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("unfinished{number}"))
    }

    /// Returns a number for the next ring.
    pub(super) fn next_ring(&self) -> u32 {
        // Relaxed: a number that orders nothing else.
        self.rings.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn nonce(&self) -> u64 {
        self.process.nonce()
    }

    pub(super) fn directory(&self) -> &Path {
        self.process.directory()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SessionFolder {
    fn drop(&mut self) {
        if !forked_child::is_disabled() {
            // A folder that cannot be removed is found by `leftovers`.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
