//! Writes the standard output, and files that appear only when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::ToolError;

const BUFFER_BYTES: usize = 256 * 1024;

/// Returns the standard output, buffered.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock())
}

/// Returns the file for the only session, or `None` if `output` is not given or names a directory.
///
/// # Errors
///
/// If `output` names a file, and there is not exactly one session.
pub(crate) fn file_of_session(
    output: Option<&Path>,
    sessions: usize,
) -> Result<Option<&Path>, ToolError> {
    let is_directory =
        |path: &&Path| path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let Some(file) = output.filter(|path| !is_directory(path)) else {
        return Ok(None);
    };
    if sessions != 1 {
        return Err(ToolError::Usage(format!(
            "{sessions} sessions do not fit into one file; name a directory: -o {}/",
            file.display()
        )));
    }
    Ok(Some(file))
}

/// Refuses to overwrite an input file.
///
/// # Errors
///
/// If `output` is one of the files `inputs`, even by another path.
pub(crate) fn refuse_input<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), ToolError> {
    if output == Path::new("-") {
        return Ok(());
    }
    let Some(written) = FileId::of(output) else {
        return Ok(());
    };
    for input in inputs {
        let path = match input == Path::new("-") {
            true => Path::new("/dev/stdin"),
            false => input,
        };
        if FileId::of(path) == Some(written) {
            return Err(ToolError::Usage(format!(
                "{} is an input, too; give the output another name",
                output.display()
            )));
        }
    }
    Ok(())
}

/// The identity of a file, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the identity of a regular file, if there is one at `path`.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        metadata.is_file().then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

/// A file that gets its name when it is finished. So a command that fails does not touch an older
/// file with the same name.
#[derive(Debug)]
pub(crate) struct OutputFile {
    out: BufWriter<Target>,
    written_bytes: u64,
    path: PathBuf,
    /// The temporary file. `None` for the standard output, and for devices and pipes.
    unfinished: Option<Unfinished>,
}

#[derive(Debug)]
enum Target {
    File(File),
    Stdout(StdoutLock<'static>),
}

/// The path of a temporary file, which is removed on drop unless it was renamed.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl OutputFile {
    /// Creates a file; `-` is the standard output.
    pub(crate) fn create(path: &Path) -> Result<Self, ToolError> {
        let (target, unfinished) = if path == Path::new("-") {
            (Target::Stdout(io::stdout().lock()), None)
        } else {
            let (file, unfinished) = create(path).map_err(|source| ToolError::Write {
                path: path.to_owned(),
                source,
            })?;
            (Target::File(file), unfinished)
        };
        Ok(Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, target),
            written_bytes: 0,
            path: path.to_owned(),
            unfinished,
        })
    }

    /// Converts an error of writing to this file.
    pub(crate) fn failed(&self, source: io::Error) -> ToolError {
        match self.out.get_ref() {
            Target::Stdout(_) => ToolError::Output(source),
            Target::File(_) => ToolError::Write {
                path: self.path.clone(),
                source,
            },
        }
    }

    /// Gives the file its name. Returns its size in bytes.
    pub(crate) fn finish(mut self) -> Result<u64, ToolError> {
        let flushed = self.out.flush();
        flushed.map_err(|source| self.failed(source))?;
        if let Some(unfinished) = &self.unfinished {
            fs::rename(&unfinished.0, &self.path).map_err(|source| self.failed(source))?;
        }
        Ok(self.written_bytes)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.written_bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Ignore the error: a finished file was renamed, so there is nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}

fn create(path: &Path) -> io::Result<(File, Option<Unfinished>)> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Ok((File::options().write(true).open(path)?, None));
    }
    let mut name = path
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let unfinished = path.with_file_name(name);
    let file = File::create(&unfinished)?;
    Ok((file, Some(Unfinished(unfinished))))
}

/// A file that is created, or replaced, when there is something to write.
pub(crate) struct LateFile<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl<'a> LateFile<'a> {
    pub(crate) const fn new(path: &'a Path) -> Self {
        Self { path, file: None }
    }
}

impl Write for LateFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() {
            self.file = Some(File::create(self.path)?);
        }
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
