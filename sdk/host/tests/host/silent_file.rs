//! A file whose file system does not answer, until it is told to end.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use support::{Folder, not_run};

// The numbers of requests: https://github.com/torvalds/linux/blob/master/include/uapi/linux/fuse.h
/// A request for the size.
pub const GETATTR: u32 = 3;
const OPEN: u32 = 14;
/// A request to read.
pub const READ: u32 = 15;
/// A request to write.
pub const WRITE: u32 = 16;
/// A request for an attribute with a name, which comes before the first write.
const GETXATTR: u32 = 22;
/// A request that is made when a descriptor is closed.
pub const FLUSH: u32 = 25;
const INIT: u32 = 26;
/// The newer request for the size. Without it, the kernel makes the older one.
const STATX: u32 = 52;

const FOPEN_DIRECT_IO: u32 = 1;

/// A file in a file system that answers when somebody opens the file, and little else. All other
/// requests wait until this is dropped, or the test ends.
pub struct SilentFile {
    folder: Folder,
    file: Option<File>,
    server: Option<JoinHandle<()>>,
    unanswered: Arc<Mutex<Vec<u32>>>,
}

impl SilentFile {
    /// Opens a file, whose file system answers these kinds of requests: writes and flushes can be
    /// answered. Returns `None` if this machine does not let the test serve a file system.
    pub fn open(options: &OpenOptions, answered: &'static [u32]) -> Option<Self> {
        let folder = Folder::empty();
        let path = folder.write("silent", "");
        let Some(requests) = serve_at(&path) else {
            not_run("root and /dev/fuse, to serve a file system");
            return None;
        };
        let unanswered = Arc::<Mutex<Vec<u32>>>::default();
        let noted = Arc::clone(&unanswered);
        let server = std::thread::spawn(move || answer(&requests, answered, &noted));
        let file = options.open(&path).unwrap();
        Some(Self {
            folder,
            file: Some(file),
            server: Some(server),
            unanswered,
        })
    }

    pub fn file(&self) -> &File {
        self.file.as_ref().unwrap()
    }

    /// Returns how many requests of a kind wait.
    pub fn unanswered(&self, kind: u32) -> usize {
        let kinds = self.unanswered.lock().unwrap();
        kinds.iter().filter(|it| **it == kind).count()
    }
}

impl Drop for SilentFile {
    fn drop(&mut self) {
        let path = self.folder.file("silent");
        // This ends all requests. It fails to unmount the file, because the file is open.
        let _ = unmount(&path, UnmountFlags::FORCE);
        unmount(&path, UnmountFlags::DETACH).unwrap();
        self.server.take().unwrap().join().unwrap();
        drop(self.file.take());
    }
}

/// Serves a file system that consists of the file at `path`. Returns where requests arrive.
fn serve_at(path: &Path) -> Option<File> {
    let requests = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .ok()?;
    let options = format!(
        "fd={},rootmode=100000,user_id=0,group_id=0",
        requests.as_raw_fd()
    );
    let options = CString::new(options).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("silent", path, "fuse", flags, options.as_c_str()).ok()?;
    Some(requests)
}

/// Answers what must be answered before a program has the file open, and notes what is not answered.
fn answer(requests: &File, answered: &[u32], unanswered: &Mutex<Vec<u32>>) {
    let mut request = vec![0; 1 << 20];
    let mut is_open = false;
    loop {
        match { requests }.read(&mut request) {
            // The request was given up before it was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // The file system has ended.
            Err(_) => return,
            Ok(_) => {}
        }
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
        let mut error = 0;
        let reply = match word(4) {
            INIT => words(&[7, 31, 0, 0, 0, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            GETATTR if !is_open => attributes(),
            OPEN => {
                is_open = true;
                // The kernel keeps no copy of what is written.
                words(&[0, 0, FOPEN_DIRECT_IO, 0])
            }
            GETXATTR | STATX => {
                error = -libc::ENOSYS;
                Vec::new()
            }
            // All bytes were written.
            WRITE if answered.contains(&WRITE) => words(&[word(56), 0]),
            FLUSH if answered.contains(&FLUSH) => Vec::new(),
            kind => {
                unanswered.lock().unwrap().push(kind);
                continue;
            }
        };
        let head = words(&[16 + reply.len() as u32, error.cast_unsigned()]);
        let reply = [&head, &request[8..16], &reply].concat();
        { requests }.write_all(&reply).unwrap();
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the attributes of an empty file, which are asked for again each time.
fn attributes() -> Vec<u8> {
    let mut attributes = vec![0; 104];
    // The number of the file, and its kind and links.
    attributes[16] = 1;
    attributes[76..80].copy_from_slice(&0o100_600_u32.to_le_bytes());
    attributes[80] = 1;
    attributes
}
