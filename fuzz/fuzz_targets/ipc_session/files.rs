//! Files and sockets whose descriptors are sent, and the number of descriptors that are open.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use arbitrary::{Arbitrary, Unstructured};

/// A kind of descriptor.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Descriptor {
    File,
    ReadOnly,
    PathOnly,
    Folder,
    Socket,
    Null,
    Full,
}

impl Descriptor {
    /// Chooses the descriptor of a call. Three of ten calls send none, as most methods take none.
    pub fn of_most_calls(input: &mut Unstructured<'_>) -> arbitrary::Result<Option<Self>> {
        let sends_none = input.ratio(3, 10)?;
        (!sends_none).then(|| input.arbitrary()).transpose()
    }
}

/// The files whose descriptors are sent.
pub struct Files {
    folder: PathBuf,
}

impl Files {
    pub fn new() -> Self {
        let name = format!("tracezero-fuzz-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("read-only"), "content").expect("a file");
        Self { folder }
    }

    pub fn open(&self, descriptor: Descriptor) -> OwnedFd {
        /// Opens the path alone.
        const O_PATH: i32 = 0o10_000_000;
        let mut options = File::options();
        let opened = match descriptor {
            Descriptor::File => {
                let options = options.read(true).write(true).create(true).truncate(true);
                options.open(self.folder.join("trace"))
            }
            Descriptor::ReadOnly => File::open(self.folder.join("read-only")),
            Descriptor::PathOnly => {
                let options = options.read(true).custom_flags(O_PATH);
                options.open(self.folder.join("read-only"))
            }
            Descriptor::Folder => File::open(&self.folder),
            Descriptor::Socket => {
                let (one, _) = UnixStream::pair().expect("sockets");
                return one.into();
            }
            Descriptor::Null => options.read(true).write(true).open("/dev/null"),
            Descriptor::Full => options.read(true).write(true).open("/dev/full"),
        };
        opened.expect("it can be opened").into()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the number of descriptors of this process.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd")
        .expect("it is mounted")
        .count()
}
