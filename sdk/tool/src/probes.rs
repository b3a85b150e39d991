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

/// How long a daemon may take before this command says that it waits for one.
const DAEMON_LIMIT: Duration = Duration::from_secs(1);

/// How long the kernel may take to stop recording.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

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

/// The data sources of this process, as long as they are offered.
#[derive(Debug)]
pub(crate) struct Offer(Option<System>);

impl Offer {
    fn system(&self) -> &System {
        let Self(system) = self;
        system.as_ref().expect("it is there until the drop")
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        drop(self.0.take());
        // The kernel would go on recording for nobody.
        let _ = Ftrace::wait_until_idle(IDLE_LIMIT);
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let signals = Signals::note();
    if let Err(error) = Ftrace::check() {
        eprintln!("linux.ftrace records nothing: {}", error_chain(&error));
    }
    let offer = connect(args.producer_socket.as_deref())?;
    eprintln!("offering {}", data_source_names().join(", "));
    if !offer.system().wait_connected(DAEMON_LIMIT) {
        eprintln!("no daemon listens yet: waiting for `tracezero daemon` or traced");
    }
    while signals.count() == 0 {
        // A signal interrupts this. Waking up often would cost more than a quiet kernel's events.
        let _ = poll(&mut [], Some(&WAIT));
    }
    drop(offer);
    Ok(Outcome::Fine)
}

/// Offers the data sources to the daemon of a consumer, whose socket for producers this is; the machine's
/// if there is none. They are offered until the result is dropped.
///
/// Returns when the daemon knows them: a session that starts before would not wait for them.
pub(crate) fn offer(socket: Option<&Path>, consumer: &mut Consumer) -> Result<Offer, ToolError> {
    let socket = socket.map(Path::to_string_lossy);
    let offer = connect(socket.as_deref())?;
    let deadline = Instant::now() + CONNECT_LIMIT;
    while !are_offered(&consumer.daemon_state().map_err(ToolError::Consumer)?) {
        if Instant::now() > deadline {
            let state = offer.system().state();
            return Err(failed(&format!("the daemon does not answer ({state:?})")));
        }
        thread::sleep(TICK);
    }
    Ok(offer)
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
fn connect(socket: Option<&str>) -> Result<Offer, ToolError> {
    tracezero_probes::register();
    let mut system = System::builder().producer_name(producer_name());
    if let Some(socket) = socket {
        system = system.socket(socket);
    }
    let system = system.connect();
    system
        .map(|system| Offer(Some(system)))
        .map_err(|error| failed(&error.to_string()))
}

fn failed(message: &str) -> ToolError {
    ToolError::Usage(format!("the kernel is not recorded: {message}"))
}
