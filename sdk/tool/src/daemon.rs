//! Serves producers and consumers of other processes.

use std::env;
use std::ffi::c_int;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Parser as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracezero_core::process_hooks;
use tracezero_host::{
    Address, Daemon, DaemonError, DaemonOptions, Log, Permissions, Stopper, notify_ready,
};

use crate::Outcome;
use crate::error::ToolError;

/// The end of the help: the default addresses, and how to wait for the daemon.
macro_rules! default_addresses {
    () => {
        "The addresses default to the environment variables PERFETTO_PRODUCER_SOCK_NAME (several are \
         separated by commas) and PERFETTO_CONSUMER_SOCK_NAME, then to \
         /run/perfetto/traced-{producer,consumer}.sock if that folder exists, then to \
         /tmp/perfetto-{producer,consumer}. Programs look for the daemon at the same places.\n\nWhoever \
         has started the daemon can learn that it listens: READY=1 goes to the socket in \
         NOTIFY_SOCKET, and the byte 1 to the descriptor in TRACED_NOTIFY_FD."
    };
}

/// Serves other processes as Perfetto's `traced` does
///
/// Producers, such as `traced_probes` and applications with `System::connect` or Perfetto's SDK,
/// connect to one socket. Consumers, such as the command `perfetto`, connect to the other, and start
/// sessions that record producers. The daemon stays in the foreground, and needs no rights. Its log
/// goes to the standard error. SIGTERM and SIGINT end it: sessions are flushed, their files are
/// finished, and consumers get 5 s to read their traces.
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Example: tracezero daemon --producer-socket /tmp/p --consumer-socket /tmp/c\n\n",
    default_addresses!()
))]
pub(crate) struct Args {
    /// The address for producers: a path, `@name`, or `host:port` on a trusted network; may be given
    /// several times
    #[arg(long, value_name = "ADDRESS")]
    producer_socket: Vec<Address>,
    /// The address for consumers: a path, or `@name`
    #[arg(long, value_name = "ADDRESS")]
    consumer_socket: Option<Address>,
    /// Group and permissions of the socket for producers, then of that for consumers
    ///
    /// Groups are names or numbers; an empty one is the daemon's. The default is `:666::600`: all users
    /// may be recorded, and the daemon's user and root may record.
    #[arg(long, value_name = "GROUP:MODE:GROUP:MODE", value_parser = socket_permissions)]
    set_socket_permissions: Option<[Permissions; 2]>,
    /// The size of the trace buffers of all sessions and clones, in MiB; half of the machine's memory by
    /// default
    #[arg(long, value_name = "MIB")]
    memory_limit: Option<u32>,
    /// The folder in which sessions of other users may create trace files, by `output_path` in their
    /// configuration
    ///
    /// The daemon must run as root, since the files belong to the users. Without this, only the
    /// daemon's own user and root may do so. All may pass an open file, as the command `perfetto` does.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
}

/// Serves other processes in place of Perfetto's `traced`
///
/// This is `tracezero daemon`, which a link of the name `traced` starts.
#[derive(Debug, clap::Parser)]
#[command(
    name = "traced",
    version = concat!(env!("CARGO_PKG_VERSION"), " (tracezero)"),
    after_help = default_addresses!()
)]
struct Traced {
    #[command(flatten)]
    args: Args,
    /// Not supported: the daemon stays in the foreground
    #[arg(long)]
    background: bool,
}

/// Runs the daemon with the options of `traced`.
pub(crate) fn run_as_traced() -> Result<Outcome, ToolError> {
    let Traced { args, background } = Traced::parse();
    // The log would have no place, and whoever started the daemon would not learn whether it listens.
    if background {
        return Err(ToolError::Usage(
            "the daemon stays in the foreground: end the command line with `&`, or let a service \
             manager start it"
                .to_owned(),
        ));
    }
    run(&args)
}

/// Returns true if this program was started by the name of Perfetto's daemon.
pub(crate) fn is_called_traced() -> bool {
    let name = env::args_os().next();
    name.is_some_and(|name| {
        Path::new(&name)
            .file_name()
            .is_some_and(|it| it == "traced")
    })
}

/// Stops the daemon that runs.
static STOPPER: OnceLock<Stopper> = OnceLock::new();

extern "C" fn stop(_signal: c_int) {
    if let Some(stopper) = STOPPER.get() {
        stopper.stop();
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let wrong = |error: tracezero_host::AddressError| ToolError::Usage(error.to_string());
    let mut options = DaemonOptions::new(Log::new(write_line));
    options.producer_addresses = match &args.producer_socket[..] {
        [] => Address::all_of_producers().map_err(wrong)?,
        given => given.to_vec(),
    };
    options.consumer_addresses = match &args.consumer_socket {
        None => vec![Address::of_consumers().map_err(wrong)?],
        Some(given) => vec![given.clone()],
    };
    if let Some([producers, consumers]) = args.set_socket_permissions {
        options.producer_permissions = producers;
        options.consumer_permissions = consumers;
    }
    if let Some(limit_mib) = args.memory_limit {
        options.buffers_max_bytes = u64::from(limit_mib) << 20;
    }
    options.output_folder.clone_from(&args.output_dir);
    let listens_at = format!(
        "listens for producers at {}, for consumers at {}",
        listed(&options.producer_addresses),
        listed(&options.consumer_addresses)
    );
    let daemon = Daemon::bind(options).map_err(ToolError::Daemon)?;
    if STOPPER.set(daemon.stopper()).is_ok() {
        for signal in [libc::SIGTERM, libc::SIGINT] {
            process_hooks::handle_default_signal(signal, stop);
        }
    }
    write_line(&listens_at);
    if let Err(error) = notify_ready() {
        write_line(&format!("cannot tell that it listens: {error}"));
    }
    let served = daemon.run();
    served.map_err(|error| ToolError::Daemon(DaemonError::from(error)))?;
    Ok(Outcome::Fine)
}

/// Writes a line of the log to the standard error. The line is lost if nobody reads it: neither a full
/// pipe nor a closed one may stop the daemon.
fn write_line(line: &str) {
    let mut stderr = io::stderr();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    // A pipe that is ready has room for 4 KiB, which a line of the log does not fill.
    if poll(&mut fds, Some(&Timespec::default())) == Ok(1) {
        let _ = stderr.write_all(format!("tracezero daemon: {line}\n").as_bytes());
    }
}

fn listed(addresses: &[Address]) -> String {
    let texts: Vec<String> = addresses.iter().map(Address::to_string).collect();
    texts.join(", ")
}

/// Parses the groups and permissions of both sockets.
fn socket_permissions(text: &str) -> Result<[Permissions; 2], String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [producers, producers_mode, consumers, consumers_mode] = parts[..] else {
        return Err(
            "give four parts: group and permissions of the producers' socket, then those of the \
             consumers', as in `:666:tracers:660`"
                .to_owned(),
        );
    };
    Ok([
        permissions(producers, producers_mode)?,
        permissions(consumers, consumers_mode)?,
    ])
}

fn permissions(group: &str, mode: &str) -> Result<Permissions, String> {
    let mode = u32::from_str_radix(mode, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("{mode:?} are no permissions: give octal digits, such as 660"))?;
    let gid = match group {
        "" => None,
        group => Some(gid_of(group)?),
    };
    Ok(Permissions { mode, gid })
}

/// Returns the number of a group, which may be given by its number.
fn gid_of(group: &str) -> Result<u32, String> {
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    let groups = std::fs::read_to_string("/etc/group").map_err(|error| error.to_string())?;
    let found = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(group);
        fields.nth(1).filter(|_| is_it)?.parse().ok()
    });
    found.ok_or_else(|| {
        format!("there is no group {group:?} in /etc/group: add it, or give the number of a group")
    })
}
