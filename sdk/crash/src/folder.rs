//! The content of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::RecoverError;

/// Returns the paths in a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, RecoverError> {
    let entries = fs::read_dir(folder).map_err(RecoverError::io(folder))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}
