//! A folder in which the daemon creates trace files for users that it does not trust with its rights.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Uid, fchown, open, openat2, unlinkat};
use rustix::io::Errno;
use tracezero_core::received_file::{ClosingFiles, ReceivedFile};
use tracezero_service::TraceFile;

/// A folder for trace files.
#[derive(Debug)]
pub(crate) struct OutputFolder {
    path: PathBuf,
    fd: OwnedFd,
}

impl OutputFolder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            path: path.to_owned(),
            fd: open(path, flags, Mode::empty())?,
        })
    }

    /// Creates a file for a user, who then owns it. `path` is absolute, or relative to the folder.
    ///
    /// # Errors
    ///
    /// If the path leads out of the folder, has a symbolic link, or is that of an existing file, or if
    /// the daemon may not give files to the user.
    pub(crate) fn create(&self, path: &Path, uid: u32) -> io::Result<TraceFile> {
        let relative = path.strip_prefix(&self.path).unwrap_or(path);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        // The system checks each step, so nobody can exchange a folder for a link in between.
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let mode = Mode::RUSR | Mode::WUSR;
        let file =
            openat2(&self.fd, relative, flags, mode, inside).map_err(|error| match error {
                Errno::XDEV => io::Error::other("the path leads out of the folder for trace files"),
                error => error.into(),
            })?;
        if let Err(error) = fchown(&file, Some(Uid::from_raw(uid)), None) {
            let _ = unlinkat(&self.fd, relative, AtFlags::empty());
            return Err(match error {
                Errno::PERM => io::Error::other(
                    "the daemon must run as root to give the file to its user; or open the file \
                     and pass it",
                ),
                error => error.into(),
            });
        }
        let file = ReceivedFile::new(file, &ClosingFiles::default());
        Ok(TraceFile::of_other_process(file))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use support::Folder;

    use super::*;

    fn own_uid() -> u32 {
        rustix::process::getuid().as_raw()
    }

    #[test]
    fn files_are_created_inside_and_belong_to_the_user() {
        let folder = Folder::empty();
        fs::create_dir(folder.file("out")).unwrap();
        fs::create_dir(folder.file("out/deeper")).unwrap();
        let output = OutputFolder::open(&folder.file("out")).unwrap();
        for path in ["a".into(), "deeper/b".into(), folder.file("out/c")] {
            output.create(&path, own_uid()).unwrap();
        }
        for name in ["out/a", "out/deeper/b", "out/c"] {
            let metadata = fs::metadata(folder.file(name)).unwrap();
            assert_eq!(
                (metadata.uid(), metadata.mode() & 0o777),
                (own_uid(), 0o600)
            );
        }
    }

    #[test]
    fn paths_that_lead_out_and_existing_files_are_refused() {
        let folder = Folder::empty();
        fs::create_dir(folder.file("out")).unwrap();
        folder.write("secret", "unchanged");
        folder.write("out/exists", "unchanged");
        symlink(folder.file("secret"), folder.file("out/link")).unwrap();
        symlink("..", folder.file("out/up")).unwrap();
        let output = OutputFolder::open(&folder.file("out")).unwrap();
        for path in [
            "../new".into(),
            "../secret".into(),
            folder.file("new"),
            "up/new".into(),
            "link".into(),
            "exists".into(),
            "missing/new".into(),
            PathBuf::new(),
        ] {
            let created = output.create(&path, own_uid());
            assert!(created.is_err(), "{}", path.display());
        }
        assert!(!folder.file("new").exists());
        assert_eq!(folder.read("secret"), b"unchanged");
        assert_eq!(folder.read("out/exists"), b"unchanged");
    }
}
