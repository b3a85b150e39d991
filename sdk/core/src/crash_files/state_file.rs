//! The file with the states of what a ring has overwritten.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use super::ring_file::RingFile;
use super::session_folder::SessionFolder;
use crate::forked_child;

/// The begin of the names of files with states. Index and generation of the ring follow, as in the
/// name of the ring's own file.
pub const STATES_PREFIX: &str = "states";

/// A file that begins with states, behind which are the changes since. Removed when this is dropped.
#[derive(Debug)]
pub struct StateFile {
    session: Arc<SessionFolder>,
    path: PathBuf,
    file: File,
}

impl StateFile {
    /// Creates the file beside that of a ring. The file appears with all that `write` writes.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn create(
        ring: &RingFile,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<Self> {
        let session = ring.session();
        let path = session
            .path()
            .join(format!("{STATES_PREFIX}{}", ring.number()));
        Ok(Self {
            file: session.write_file(&path, write)?,
            session: Arc::clone(session),
            path,
        })
    }

    /// Replaces the content by what `write` writes. A recovery finds either the old content or all of the
    /// new one.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. The old one stays then.
    pub fn replace(&mut self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        self.file = self.session.write_file(&self.path, write)?;
        Ok(())
    }

    /// Appends to the content. A process that is killed meanwhile may leave only a part.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. It may have a part, and must not be used any more.
    pub fn append(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        if !forked_child::is_disabled() {
            // A file that cannot be removed goes with the folder of the session.
            let _ = fs::remove_file(&self.path);
        }
    }
}
