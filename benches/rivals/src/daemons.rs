//! The daemons, and sessions that the command `perfetto` starts.

use std::env;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{Result, Running, wait_for};

/// A daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Traced,
    Tracezero,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Traced, Self::Tracezero];

    /// Returns the name, as tables show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traced => "`traced`",
            Self::Tracezero => "**`tracezero daemon`**",
        }
    }
}

/// The programs that are measured, and those that take part in the measurements.
#[derive(Debug)]
pub struct Programs {
    /// A folder with `traced` and `perfetto`.
    pub perfetto: PathBuf,
    /// The command `tracezero`.
    tracezero: Option<PathBuf>,
    /// The program made of `bin/daemon/producer.cc`.
    pub cpp_producer: Option<PathBuf>,
    /// The program `daemon`, which records with the SDKs of this language.
    pub recorder: PathBuf,
}

impl Programs {
    /// Returns the program that records the kernel for this kind of daemon.
    ///
    /// # Errors
    ///
    /// If the environment does not name it.
    pub fn probes(&self, kind: Kind) -> Result<Command> {
        match kind {
            Kind::Traced => Ok(Command::new(self.perfetto.join("traced_probes"))),
            Kind::Tracezero => {
                let mut command = self.tracezero()?;
                command.arg("probes");
                Ok(command)
            }
        }
    }

    /// Returns the command `tracezero`.
    ///
    /// # Errors
    ///
    /// If the environment does not name it.
    pub fn tracezero(&self) -> Result<Command> {
        let program = self.tracezero.as_ref();
        Ok(Command::new(program.ok_or("TRACEZERO names no program")?))
    }

    /// Returns the programs that the environment names.
    ///
    /// # Errors
    ///
    /// If it names no folder of Perfetto.
    pub fn of_environment() -> Result<Self> {
        let path = |name| env::var_os(name).map(PathBuf::from);
        Ok(Self {
            perfetto: path("PERFETTO_BIN").ok_or("PERFETTO_BIN names no folder")?,
            tracezero: path("TRACEZERO"),
            cpp_producer: path("CPP_PRODUCER"),
            recorder: env::current_exe()?.with_file_name("daemon"),
        })
    }
}

/// A daemon that runs. It ends when this is dropped.
pub struct Daemon<'a> {
    programs: &'a Programs,
    running: Running,
    folder: &'a Path,
}

impl<'a> Daemon<'a> {
    /// Starts a daemon, whose sockets are in `folder`.
    ///
    /// # Errors
    ///
    /// If the environment does not name its program, or if it does not listen in time.
    pub fn start(kind: Kind, programs: &'a Programs, folder: &'a Path) -> Result<Self> {
        let mut command = match kind {
            Kind::Traced => Command::new(programs.perfetto.join("traced")),
            Kind::Tracezero => {
                let mut command = programs.tracezero()?;
                command.arg("daemon");
                command
            }
        };
        let sockets = sockets(folder);
        for (_, path) in &sockets {
            // A daemon that ran before may have left its socket here.
            let _ = fs::remove_file(path);
        }
        let running = Running::start(command.envs(sockets.clone()), kind.name())?;
        // The file of a socket exists before the daemon listens at the socket.
        let listens = |path: &PathBuf| UnixStream::connect(path).is_ok();
        let is_ready = || sockets.iter().all(|(_, path)| listens(path));
        wait_for(is_ready, kind.name())?;
        Ok(Self {
            programs,
            running,
            folder,
        })
    }

    /// Returns the number of the daemon's process.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Starts a producer of this daemon.
    pub fn producer(&self, command: &mut Command, name: &'static str) -> Result<Running> {
        Running::start(command.envs(sockets(self.folder)), name)
    }

    /// Starts a session, whose trace goes to [`trace`](Self::trace).
    pub fn session(&self, config: &str) -> Result<Running> {
        let file = self.folder.join("config");
        fs::write(&file, config)?;
        let _ = fs::remove_file(self.trace());
        let mut perfetto = Command::new(self.programs.perfetto.join("perfetto"));
        perfetto.arg("--txt").arg("-c").arg(file);
        perfetto.arg("-o").arg(self.trace());
        Running::start(perfetto.envs(sockets(self.folder)), "perfetto")
    }

    /// Returns the place of the trace.
    pub fn trace(&self) -> PathBuf {
        self.folder.join("trace")
    }
}

fn sockets(folder: &Path) -> [(&'static str, PathBuf); 2] {
    [
        ("PERFETTO_PRODUCER_SOCK_NAME", folder.join("producer")),
        ("PERFETTO_CONSUMER_SOCK_NAME", folder.join("consumer")),
    ]
}

/// Ends a session, and waits for the rest of its trace.
///
/// # Errors
///
/// If the command `perfetto` fails.
pub fn end_session(mut session: Running) -> Result<()> {
    session.signal("INT")?;
    session.wait()
}
