//! Connects the process to the machine's tracing daemon, also without a line of the application if the
//! environment asks for it.

use std::sync::{Arc, Once};
use std::time::Duration;
use std::{env, fmt};

use parking_lot::Mutex;
use tracezero_client::{Address, Client, ClientError, ClientState, Options};
use tracezero_core::{forked_child, own_process, reentry};
use tracezero_producer::DataSourceState;

/// The environment variable that asks for a connection.
const VARIABLE: &str = "TRACEZERO_SYSTEM";

/// The longest time that the process waits for the daemon, if the environment asks for that. A daemon on
/// the same machine answers in milliseconds, or in some hundred if the machine is busy.
const WAIT_LIMIT: Duration = Duration::from_secs(2);

/// The longest time that a thread then waits for the daemon to free shared memory, before it drops
/// events. The user would rather have a slower program than a trace with gaps.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// The connection that the environment asks for. It lasts until the process ends.
static OF_ENVIRONMENT: Mutex<Option<Arc<Client>>> = Mutex::new(None);

/// What the environment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// To connect: the value 1.
    Connect,
    /// To connect, and to wait until the daemon has said what it records: the value `wait`, which
    /// `tracezero record` sets. Without the wait, a program would run for some milliseconds before it is
    /// recorded.
    ConnectAndWait,
}

fn asked_by_environment() -> Option<Asked> {
    let value = env::var_os(VARIABLE)?;
    match value.to_str()? {
        "1" => Some(Asked::Connect),
        "wait" => Some(Asked::ConnectAndWait),
        _ => None,
    }
}

/// Connects at the first call, if the environment asks for it. Calls of other threads wait meanwhile.
/// Reports on the standard error if that is not possible: nobody else could.
/// `track_event` is the data source of this package.
pub fn connect_if_asked(track_event: &'static DataSourceState) {
    static ONCE: Once = Once::new();
    // In a callback, the thread for which others wait may be this one. In a forked child, it does not
    // exist.
    if ONCE.is_completed() || reentry::is_in_callback() || forked_child::is_disabled() {
        return;
    }
    ONCE.call_once(|| {
        if asked_by_environment().is_none() {
            return;
        }
        let connected = Address::of_producers()
            .map_err(|error| error.to_string())
            .and_then(|address| {
                let options = Options::new(address, own_process::executable_name());
                connect_client(options, track_event).map_err(|error| error.to_string())
            });
        if let Err(error) = connected {
            report(format_args!("{VARIABLE}: {error}"));
        }
    });
}

/// Connects to a daemon. If the environment asks for a connection to the same daemon, there is one for
/// both: with two, the daemon would record each event twice. `track_event` is the data source of this
/// package.
///
/// # Errors
///
/// See [`ClientError`].
pub fn connect_client(
    mut options: Options,
    track_event: &'static DataSourceState,
) -> Result<Arc<Client>, ClientError> {
    let asked =
        asked_by_environment().filter(|_| Address::of_producers().as_ref() == Ok(&options.address));
    let Some(asked) = asked else {
        return Client::connect(options, track_event).map(Arc::new);
    };
    let address = options.address.clone();
    let mut of_environment = OF_ENVIRONMENT.lock();
    if let Some(client) = &*of_environment {
        return Ok(Arc::clone(client));
    }
    if asked == Asked::ConnectAndWait {
        options.waits_for_daemon = true;
        options.stall_limit = options.stall_limit.max(STALL_LIMIT);
    }
    let client = Arc::new(Client::connect(options, track_event)?);
    *of_environment = Some(Arc::clone(&client));
    drop(of_environment);
    if asked == Asked::ConnectAndWait
        && let Err(state) = client.wait_learned(WAIT_LIMIT)
    {
        report_state(&state, &address);
    }
    Ok(client)
}

/// Says why nothing is recorded. Says nothing if the recording has ended, and its daemon with it.
fn report_state(state: &ClientState, address: &Address) {
    match state {
        ClientState::Waiting { .. } if matches!(address, Address::Path(path) if !path.exists()) => {
        }
        ClientState::Waiting { reason, .. } => report(format_args!("not recorded: {reason}")),
        _ => report(format_args!(
            "not recorded yet: the daemon at {address} has not answered for {WAIT_LIMIT:?}"
        )),
    }
}

fn report(text: fmt::Arguments<'_>) {
    eprintln!("tracezero: {text}");
}
