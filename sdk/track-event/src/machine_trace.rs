//! Connects the process to the machine's tracing daemon, if the environment asks for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, mem};

use tracezero_client::{Address, Client, Options};
use tracezero_core::own_process;
use tracezero_producer::DataSourceState;

/// The environment variable that asks for a connection by the value 1.
const VARIABLE: &str = "TRACEZERO_SYSTEM";

/// Connects at the first call, if the environment asks for it. `track_event` is the data source of
/// this package. Reports on the standard error if that is not possible: nobody else could.
pub(super) fn connect_if_asked(track_event: &'static DataSourceState) {
    static WAS_CALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: only one call goes on, and it needs nothing of others.
    if WAS_CALLED.swap(true, Ordering::Relaxed) || env::var_os(VARIABLE).is_none_or(|it| it != "1")
    {
        return;
    }
    let connected = Address::of_producers()
        .map_err(|error| error.to_string())
        .and_then(|address| {
            let options = Options::new(address, own_process::executable_name());
            Client::connect(options, track_event).map_err(|error| error.to_string())
        });
    match connected {
        // It stays connected until the process ends.
        Ok(client) => mem::forget(client),
        Err(error) => eprintln!("tracezero: {VARIABLE}: {error}"),
    }
}
