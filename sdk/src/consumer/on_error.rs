//! Errors that nobody asks for.

use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Error;

type OnError = Arc<dyn Fn(&Error) + Send + Sync>;

static ON_ERROR: Mutex<Option<OnError>> = Mutex::new(None);

/// Sets the function that learns of errors which no caller receives, in place of a line on standard
/// error. It replaces the function that was set before.
///
/// These are the errors of sessions whose file could not be written, and that were dropped rather
/// than [finished](crate::Session::finish), or were still there when the process exited or got
/// `SIGINT` or `SIGTERM`. Each is told once. At the end of the process the function has little
/// time, and runs on a thread of the SDK.
///
/// ```
/// tracezero::on_error(|error| eprintln!("tracing: {error}"));
/// ```
pub fn on_error(tell: impl Fn(&Error) + Send + Sync + 'static) {
    *ON_ERROR.lock() = Some(Arc::new(tell));
}

/// Tells of an error that no caller receives.
pub(super) fn report(error: &Error) {
    let on_error = ON_ERROR.lock().clone();
    match on_error {
        Some(tell) => {
            // A panic there is the application's, and may come while it unwinds from another.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| tell(error)));
        }
        None => {
            // Without a standard error there is nobody left to tell.
            let _ = writeln!(io::stderr(), "tracezero: {error}");
        }
    }
}
