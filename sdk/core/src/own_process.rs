//! The name of this process.

use std::env;

/// Returns the name by which configurations choose this process: the file name of its executable.
/// Empty if the system does not say.
#[must_use]
pub fn executable_name() -> String {
    env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_default()
}
