//! Reads traces from files or the standard input.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::LazyLock;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::error::ToolError;

/// The size from which a file gets a progress bar. Smaller ones are read too fast to need it.
const PROGRESS_FROM_BYTES: u64 = 64 << 20;

/// The bars of all files that are read at once, so that they do not overwrite each other.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// The bytes of a trace. Shows a progress bar for a large file if the standard error is a terminal.
pub(crate) struct Input {
    source: Source,
    progress: Option<ProgressBar>,
}

enum Source {
    File(File),
    Stdin(io::StdinLock<'static>),
}

impl Input {
    /// Opens a file; `-` is the standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, ToolError> {
        let failed = |source| ToolError::Open {
            path: path.to_owned(),
            source,
        };
        if path == Path::new("-") {
            return Ok(Self {
                source: Source::Stdin(io::stdin().lock()),
                progress: None,
            });
        }
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let is_watched = metadata.len() >= PROGRESS_FROM_BYTES && io::stderr().is_terminal();
        Ok(Self {
            source: Source::File(file),
            progress: is_watched.then(|| progress_bar(metadata.len())),
        })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.source {
            Source::File(file) => file.read(buffer),
            Source::Stdin(stdin) => stdin.read(buffer),
        }?;
        if let Some(progress) = &self.progress {
            match count {
                0 => progress.finish_and_clear(),
                count => progress.inc(count as u64),
            }
        }
        Ok(count)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress {
            progress.finish_and_clear();
        }
    }
}

fn progress_bar(size_bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}, {eta} left",
    )
    .expect("a constant that is right");
    BARS.add(ProgressBar::new(size_bytes).with_style(style))
}
