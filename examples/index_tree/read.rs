//! Reads the text of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tracezero::span;

/// The number of bytes at the start that are searched for a NUL, which means that the file is not
/// text.
const PROBE_BYTES: u64 = 8 * 1024;
/// The size above which files are not read, because every worker holds one in memory.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The reason why a file has no text.
pub enum NoText {
    Binary,
    Unreadable(String),
}

impl From<io::Error> for NoText {
    fn from(source: io::Error) -> Self {
        Self::Unreadable(source.to_string())
    }
}

/// Reads a whole file as text.
pub fn text(path: &Path) -> Result<String, NoText> {
    let _span = span!("file", "read");
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    if len > FILE_BYTES_MAX {
        return Err(NoText::Unreadable(format!(
            "{len} bytes are more than the limit of {FILE_BYTES_MAX}"
        )));
    }
    let mut bytes = Vec::with_capacity(len as usize);
    file.by_ref().take(PROBE_BYTES).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Err(NoText::Binary);
    }
    // Applies the limit again, because the file may have grown.
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| NoText::Binary)
}
