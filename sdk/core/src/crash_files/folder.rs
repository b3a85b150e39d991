//! The folder of this process.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::directory::{self, new_file};
use super::error::CrashFilesError;
use super::format::{HEADER_BYTES, Meta, ROW_BYTES};
use crate::file_memory::SharedWords;
use crate::forked_child;
use crate::shm::{Geometry, MemoryError, ProducerMemory, ServiceMemory, shared_memory_of_file};

/// The end of the name of every folder.
pub const FOLDER_SUFFIX: &str = ".tz";
/// The name of the file that describes the process and its writers.
pub const META_FILE: &str = "meta";
/// The name of the file with the shared memory.
pub const MEMORY_FILE: &str = "smb";

/// The number of rows by which the table of writers grows.
const ROWS_PER_BLOCK: usize = 1024;

/// The folder of this process, with the files that all of its sessions share.
///
/// While the process lives, it holds a lock (`F_SETLK`) on `meta`. The kernel releases this lock
/// when the process ends, however it ends, and forked children do not inherit it. It also releases
/// the lock when the process closes *any* descriptor of the file, so this process must never open
/// its own `meta` again.
#[derive(Debug)]
pub struct ProcessFolder {
    directory: PathBuf,
    path: PathBuf,
    nonce: u64,
    meta: File,
    geometry: Geometry,
    sessions: AtomicU32,
}

impl ProcessFolder {
    /// Creates the folder of this process in `directory`, with shared memory of this geometry.
    ///
    /// # Errors
    ///
    /// If the directory cannot have crash files, or has no room for the shared memory.
    pub fn create(
        directory: &Path,
        process_name: &str,
        geometry: Geometry,
    ) -> Result<Arc<Self>, CrashFilesError> {
        directory::prepare(directory)?;
        let nonce = random_nonce();
        let pid = std::process::id();
        let name = format!("{}-{pid}-{nonce:016x}", plain_name(process_name));
        // `leftovers` looks only at folders whose names end with `FOLDER_SUFFIX`. So the folder is
        // made under another name, and is renamed when all of its files exist.
        let making = directory.join(format!("{name}.making"));
        let name = name + FOLDER_SUFFIX;
        let path = directory.join(&name);
        let folder = make(&making, nonce, process_name, geometry)
            .and_then(|meta| {
                fs::rename(&making, &path).map_err(CrashFilesError::io(&path))?;
                Ok(meta)
            })
            .inspect_err(|_| {
                // If it cannot be removed, there is nothing more to do.
                let _ = fs::remove_dir_all(&making);
            });
        let meta = folder?;
        OWN_FOLDERS.lock().push((pid, name));
        Ok(Arc::new(Self {
            directory: directory.to_owned(),
            path,
            nonce,
            meta,
            geometry,
            sessions: AtomicU32::new(0),
        }))
    }

    /// Returns the directory that the folder is in.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Maps the shared memory, and returns the handles of both sides.
    ///
    /// # Errors
    ///
    /// If the system refuses the mapping.
    pub fn shared_memory(&self) -> Result<(ProducerMemory, ServiceMemory), MemoryError> {
        let size_bytes = self.geometry.size_bytes();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join(MEMORY_FILE))
            .map_err(|source| MemoryError::Map { size_bytes, source })?;
        shared_memory_of_file(self.geometry, &file)
    }

    /// Returns a number for the next session.
    pub(super) fn next_session(&self) -> u32 {
        // Relaxed: a number that orders nothing else.
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// Maps the rows of the table of writers from the block at `index` on.
    pub(super) fn add_rows(&self, index: usize) -> Result<SharedWords, CrashFilesError> {
        let block_bytes = ROWS_PER_BLOCK * ROW_BYTES;
        let offset_bytes = (HEADER_BYTES + index * block_bytes) as u64;
        directory::reserve(
            &self.meta,
            offset_bytes,
            block_bytes as u64,
            &self.directory,
        )?;
        SharedWords::of_file(&self.meta, offset_bytes, block_bytes)
            .map_err(CrashFilesError::io(&self.path))
    }

    /// Removes the folder, unless it has a session. Called when the process exits.
    pub fn remove_if_unused(&self) {
        let has_session = fs::read_dir(&self.path).is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| entry.path().is_dir()))
        });
        if !has_session && !forked_child::is_disabled() {
            // A folder that cannot be removed is found by `leftovers`.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The names of folders that this process has created, with its id. A forked child has another id.
static OWN_FOLDERS: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

/// Returns true if this process has created the folder at `path`.
#[must_use]
pub fn is_of_this_process(path: &Path) -> bool {
    let pid = std::process::id();
    let own = OWN_FOLDERS.lock();
    own.iter()
        .any(|(owner, name)| *owner == pid && path.file_name().is_some_and(|it| it == &**name))
}

/// Creates the folder and its files. Returns `meta`, locked.
fn make(
    path: &Path,
    nonce: u64,
    process_name: &str,
    geometry: Geometry,
) -> Result<File, CrashFilesError> {
    let io = || CrashFilesError::io(path);
    DirBuilder::new().mode(0o700).create(path).map_err(io())?;
    let directory = path.parent().unwrap_or(path);
    let meta = new_file(&path.join(META_FILE)).map_err(io())?;
    let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::fcntl_lock(&meta, lock).map_err(|error| io()(error.into()))?;
    let header = Meta {
        nonce,
        boot_id: boot_id().map_err(io())?,
        pid_namespace: pid_namespace().map_err(io())?,
        start_time_ticks: process_start_ticks(Path::new("/proc/self")).map_err(io())?,
        pid: std::process::id(),
        uid: rustix::process::getuid().as_raw(),
        created_unix_ns: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos() as u64),
        memory_size_bytes: geometry.size_bytes() as u32,
        page_size_bytes: geometry.page_size_bytes() as u32,
        process_name: process_name.to_owned(),
    };
    directory::reserve(&meta, 0, HEADER_BYTES as u64, directory)?;
    meta.write_all_at(&header.encode(), 0).map_err(io())?;
    let memory = new_file(&path.join(MEMORY_FILE)).map_err(io())?;
    directory::reserve(&memory, 0, geometry.size_bytes() as u64, directory)?;
    Ok(meta)
}

/// Returns the name of a process as a part of a file name: other characters become `_`.
fn plain_name(name: &str) -> String {
    const LEN_MAX: usize = 64;
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().take(LEN_MAX).map(plain).collect();
    if name.is_empty() {
        "process".to_owned()
    } else {
        name
    }
}

/// Returns a number that no other folder has.
fn random_nonce() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    // The standard library seeds its hash maps with random bits of the system.
    RandomState::new().hash_one(std::process::id())
}

/// Returns the kernel's random id of this boot.
///
/// # Errors
///
/// If `/proc` cannot be read.
pub fn boot_id() -> io::Result<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let text = std::str::from_utf8(pair).map_err(io::Error::other)?;
        *byte = u8::from_str_radix(text, 16).map_err(io::Error::other)?;
    }
    Ok(id)
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// Returns when a process started, in clock ticks since boot; `process` is its folder in `/proc`.
///
/// # Errors
///
/// If there is no such process.
pub fn process_start_ticks(process: &Path) -> io::Result<u64> {
    let stat = fs::read_to_string(process.join("stat"))?;
    // The second field, the name, may contain spaces and parentheses. The start time is field 22.
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = behind_name.split_ascii_whitespace().nth(22 - 3);
    let ticks = field.and_then(|field| field.parse().ok());
    ticks.ok_or_else(|| io::Error::other("the process has no start time"))
}
