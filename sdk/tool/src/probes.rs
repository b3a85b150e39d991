//! Offers the kernel's half of a trace to the machine's daemon.

use std::path::Path;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use tracezero::System;
use tracezero_consumer::{Consumer, DaemonState};
use tracezero_probes::{Ftrace, data_source_names};

use crate::Outcome;
use crate::error::{ToolError, error_chain};
use crate::signals::Signals;

/// The beginning of this process's name among the daemon's producers. The process id follows: sessions
/// of several such commands are independent.
const PRODUCER_NAME: &str = "tracezero-kernel-";

/// How long the daemon may take to accept this process and its data sources.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How often the command looks whether the daemon knows its data sources.
const TICK: Duration = Duration::from_millis(5);

/// How long the command may overlook a signal that comes just before it waits for one.
const WAIT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Records the kernel for the machine's tracing daemon
///
/// Offers the data sources linux.ftrace, linux.process_stats, linux.sys_stats and linux.system_info to
/// `tracezero daemon` or Perfetto's `traced`, as Perfetto's `traced_probes` does, until SIGTERM or
/// Ctrl-C. Configurations are those of Perfetto. linux.ftrace needs root, or the capability
/// CAP_DAC_OVERRIDE.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: tracezero probes & tracezero record -t 10s --config kernel.cfg

`tracezero record --kernel` needs no such command: it records the kernel by itself.")]
pub(crate) struct Args {
    /// The daemon's socket for producers; the usual place by default
    #[arg(long, value_name = "ADDRESS")]
    producer_socket: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let signals = Signals::note();
    if let Err(error) = Ftrace::check() {
        eprintln!("linux.ftrace records nothing: {}", error_chain(&error));
    }
    let system = connect(args.producer_socket.as_deref())?;
    eprintln!("offering {}", data_source_names().join(", "));
    while signals.count() == 0 {
        // A signal interrupts this. Waking up often would cost more than a quiet kernel's events.
        let _ = poll(&mut [], Some(&WAIT));
    }
    drop(system);
    Ok(Outcome::Fine)
}

/// Offers the data sources to the daemon of a consumer, whose socket for producers this is; the machine's
/// if there is none. They are offered until the result is dropped.
///
/// Returns when the daemon knows them: a session that starts before would not wait for them.
pub(crate) fn offer(socket: Option<&Path>, consumer: &mut Consumer) -> Result<System, ToolError> {
    let socket = socket.map(Path::to_string_lossy);
    let system = connect(socket.as_deref())?;
    let deadline = Instant::now() + CONNECT_LIMIT;
    while !are_offered(&consumer.daemon_state().map_err(ToolError::Consumer)?) {
        if Instant::now() > deadline {
            let state = system.state();
            return Err(failed(&format!("the daemon does not answer ({state:?})")));
        }
        thread::sleep(TICK);
    }
    Ok(system)
}

/// Returns true if the daemon knows all data sources of this process.
fn are_offered(daemon: &DaemonState) -> bool {
    let name = producer_name();
    let producer = daemon.producers.iter().find(|it| it.name == name);
    producer.is_some_and(|producer| {
        data_source_names().iter().all(|name| {
            let mut offered = daemon.data_sources.iter();
            offered.any(|it| it.producer_id == producer.id && it.name == *name)
        })
    })
}

/// Returns this process's name among the daemon's producers.
pub(crate) fn producer_name() -> String {
    format!("{PRODUCER_NAME}{}", process::id())
}

/// Connects in the background.
fn connect(socket: Option<&str>) -> Result<System, ToolError> {
    tracezero_probes::register();
    let mut system = System::builder().producer_name(producer_name());
    if let Some(socket) = socket {
        system = system.socket(socket);
    }
    system.connect().map_err(|error| failed(&error.to_string()))
}

fn failed(message: &str) -> ToolError {
    ToolError::Usage(format!("the kernel is not recorded: {message}"))
}
