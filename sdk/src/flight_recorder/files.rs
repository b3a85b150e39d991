//! The files of snapshots.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::error::FlightError;
use crate::trace_folder::{FolderError, Held, Room, TraceFolder, partial_path};
use tracezero_service::TraceFile;

/// The default pattern for names of files.
pub(super) const DEFAULT_PATTERN: &str = "flight-{name}-{time}-{pid}-{number}.pftrace";

/// Writes the contents of a file. Every call writes the same bytes.
pub(super) type WriteFile<'w> = &'w dyn Fn(&mut dyn Write) -> io::Result<()>;

/// The directory that snapshots are written to.
#[derive(Debug)]
pub(super) struct Folder(pub(super) TraceFolder);

/// Nobody else uses snapshots while one is written: the application gets them on the same thread.
struct NoneHeld;

impl Held for NoneHeld {
    fn is_held(&self, _path: &Path) -> bool {
        false
    }

    fn removed(&self, _path: &Path) {}
}

impl Folder {
    /// Writes a file, which gets its name only when it is complete. Removes old files first. If that
    /// fails and the size of all files is not limited, only tells `note`.
    pub(super) fn write(
        &self,
        snapshot: &str,
        write: WriteFile<'_>,
        note: impl FnOnce(FlightError),
    ) -> Result<PathBuf, FlightError> {
        // The size is wanted only if it is limited, because it takes the time of a write.
        let bytes = match self.0.limits.total_bytes {
            None => 0,
            Some(limit_bytes) => {
                let mut counted = Counted(0);
                write(&mut counted).map_err(|source| file_error(&self.0.path, source))?;
                if counted.0 > limit_bytes {
                    return Err(FlightError::TooLarge {
                        bytes: counted.0,
                        limit_bytes,
                    });
                }
                counted.0
            }
        };
        match self.make_room(&[], bytes) {
            Err(error) if self.0.limits.total_bytes.is_none() => note(error),
            outcome => outcome?,
        }
        write_whole(&self.next_path(snapshot), write)
    }

    /// Creates a file by a recovery, and removes old ones.
    #[cfg(feature = "recovery")]
    pub(super) fn recover<T>(
        &self,
        snapshot: &str,
        recover: impl FnOnce(&Path) -> Result<T, FlightError>,
    ) -> Result<PathBuf, FlightError> {
        let path = self.next_path(snapshot);
        recover(&path)?;
        // The size of a recovered trace is not known before.
        let bytes = fs::metadata(&path).map_or(0, |it| it.len());
        let open = [path];
        self.make_room(&open, bytes)?;
        let [path] = open;
        Ok(path)
    }

    fn next_path(&self, snapshot: &str) -> PathBuf {
        let name = self.0.names.next(snapshot, SystemTime::now());
        self.0.path.join(name)
    }

    /// Makes room for a file with this number of bytes, which may exist already.
    fn make_room(&self, open: &[PathBuf], bytes: u64) -> Result<(), FlightError> {
        let room = Room {
            files: 1,
            bytes,
            open,
            now: SystemTime::now(),
        };
        match self.0.make_room(&room, &NoneHeld) {
            Ok(_) => Ok(()),
            Err(FolderError { path, source }) if path == self.0.path => {
                Err(FlightError::Directory {
                    path,
                    source: Arc::new(source),
                })
            }
            Err(FolderError { path, source }) => Err(file_error(&path, source)),
        }
    }
}

/// Counts bytes.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the file at `path`, which is created, or replaced if it exists. A pipe, a device or the
/// target of a link is written to instead of replaced.
pub(super) fn write_to(path: &Path, write: WriteFile<'_>) -> Result<PathBuf, FlightError> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let file = TraceFile::create(path).map_err(|error| begin_error(path, error))?;
            write_into(&file, write).map_err(|source| file_error(path, source))?;
            Ok(path.to_owned())
        }
        _ => {
            // Fails if a session writes to the file: replacing it would leave that session with a
            // file without a name.
            let _replaced =
                TraceFile::to_replace(path).map_err(|error| begin_error(path, error))?;
            write_whole(path, write)
        }
    }
}

/// Writes a file, which gets its name only when it is complete.
fn write_whole(path: &Path, write: WriteFile<'_>) -> Result<PathBuf, FlightError> {
    let partial = partial_path(path);
    // The lock on the partial file keeps other writers away until it is renamed or removed.
    let file = TraceFile::create(&partial).map_err(|error| begin_error(path, error))?;
    match write_into(&file, write).and_then(|()| fs::rename(&partial, path)) {
        Ok(()) => Ok(path.to_owned()),
        Err(source) => {
            // An incomplete file is of no use. If it cannot be removed, there is nothing more to
            // do.
            let _ = fs::remove_file(&partial);
            Err(file_error(path, source))
        }
    }
}

fn write_into(file: &File, write: WriteFile<'_>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

/// Creates the error for a file that could not be created or locked.
fn begin_error(path: &Path, error: TryLockError) -> FlightError {
    match error {
        TryLockError::WouldBlock => FlightError::FileInUse {
            path: path.to_owned(),
        },
        TryLockError::Error(source) => file_error(path, source),
    }
}

fn file_error(path: &Path, source: io::Error) -> FlightError {
    FlightError::File {
        path: path.to_owned(),
        source: Arc::new(source),
    }
}
