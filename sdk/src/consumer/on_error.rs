//! Reports errors that no caller receives.

use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Error;

type OnError = Arc<dyn Fn(&Error) + Send + Sync>;

static ON_ERROR: Mutex<Option<OnError>> = Mutex::new(None);

/// Sets the function that is called with errors that no caller receives. It replaces the function
/// set before. By default such an error is printed to standard error.
///
/// Sessions whose file could not be written cause these errors, if they were dropped instead of
/// [finished](crate::Session::finish), or still existed when the process exited or received
/// `SIGINT` or `SIGTERM`. Each error is reported once. At the end of the process the function has
/// little time and runs on a thread of the SDK.
///
/// ```
/// tracezero::on_error(|error| eprintln!("tracing: {error}"));
/// ```
pub fn on_error(handler: impl Fn(&Error) + Send + Sync + 'static) {
    *ON_ERROR.lock() = Some(Arc::new(handler));
}

/// Reports an error that no caller receives.
pub(super) fn report(error: &Error) {
    let on_error = ON_ERROR.lock().clone();
    match on_error {
        Some(handler) => {
            // The application's function may panic, perhaps while this thread unwinds from another
            // panic.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| handler(error)));
        }
        None => {
            // If standard error cannot be written, nobody can be told.
            let _ = writeln!(io::stderr(), "tracezero: {error}");
        }
    }
}
