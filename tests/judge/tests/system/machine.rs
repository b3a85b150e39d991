//! A daemon with sockets of its own, and recordings by the command `perfetto`.
//!
//! The daemon is `traced`, or our own in the run that [`DAEMON`] asks for.

use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use judge::{ExtraSchema, Loss, Options, Tool, Verdict, built_tool, judge_with};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use support::{Folder, not_run};
use tracezero::Address;

use crate::programs::{BY_ENVIRONMENT, KIND, NAME};
use crate::running::{Possessions, Program};

/// The environment variable that chooses [`Daemon::Ours`] if its value is `tracezero`.
pub const DAEMON: &str = "TRACEZERO_TEST_DAEMON";

/// A daemon that serves producers and consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// Perfetto's daemon.
    Traced,
    /// `tracezero daemon`.
    Ours,
}

impl Daemon {
    /// Returns the daemon of this run of the tests.
    pub fn of_this_run() -> Self {
        match env::var_os(DAEMON) {
            Some(name) if name == "tracezero" => Self::Ours,
            Some(name) => panic!("{DAEMON} is {name:?}; give tracezero, or nothing for traced"),
            None => Self::Traced,
        }
    }

    fn command(self, programs: &Path) -> Command {
        match self {
            Self::Traced => Command::new(programs.join("traced")),
            Self::Ours => {
                let mut command = Command::new(tool());
                command.arg("daemon");
                command
            }
        }
    }
}

/// Returns the path of the command `tracezero`.
pub fn tool() -> &'static Path {
    static TOOL: LazyLock<Tool> =
        LazyLock::new(|| built_tool(Path::new(env!("CARGO_BIN_EXE_judge"))));
    TOOL.binary()
}

/// The longest time that a step of a test takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the folder of the programs. `None`, with a message, if they are missing.
fn programs() -> Option<PathBuf> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/perfetto/bin");
    let folder = env::var_os("PERFETTO_BIN").map_or(fetched, PathBuf::from);
    if folder.join("traced").exists() && folder.join("perfetto").exists() {
        return Some(folder);
    }
    not_run("Perfetto's traced and perfetto, which ci/fetch.sh fetches by apt");
    None
}

/// Calls `is_true` until it returns true.
#[track_caller]
pub fn wait_until(mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(
            start.elapsed() < PATIENCE,
            "nothing has happened for {PATIENCE:?}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// A machine with a daemon.
pub struct Machine {
    /// The kind of `daemon`.
    kind: Daemon,
    programs: PathBuf,
    folder: Folder,
    /// The address at which producers connect.
    producer_socket: String,
    daemon: Child,
}

impl Machine {
    /// Starts a daemon. `None` if the programs are missing.
    pub fn start() -> Option<Self> {
        let folder = Folder::empty();
        let producer_socket = folder.file("producer").display().to_string();
        Self::start_at(folder, producer_socket)
    }

    /// Starts a daemon that listens for producers on a port of the network, so that it cannot share
    /// memory with them. `None` if the programs are missing, and for our daemon, which serves no
    /// producers without shared memory.
    pub fn start_on_network() -> Option<Self> {
        if Daemon::of_this_run() == Daemon::Ours {
            return None;
        }
        // The port is free again when the listener is dropped, so that the daemon can take it.
        // Another process could take it first, but that is unlikely: the kernel chooses among
        // thousands of ports.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        Self::start_at(Folder::empty(), address)
    }

    fn start_at(folder: Folder, producer_socket: String) -> Option<Self> {
        let programs = programs()?;
        let kind = Daemon::of_this_run();
        let mut daemon = daemon(kind, &programs, &folder, &producer_socket);
        let daemon = started(&mut daemon, &folder);
        Some(Self {
            kind,
            programs,
            folder,
            producer_socket,
            daemon,
        })
    }

    /// Starts a daemon of another user, whose sockets are in a folder that all users can write to.
    /// `None` if the programs are missing, or if the tests may not start processes of other users.
    pub fn of_user(uid: u32) -> Option<Self> {
        let programs = programs()?;
        if !geteuid().is_root() {
            not_run("the rights of root, to start a daemon of another user");
            return None;
        }
        // The other user cannot start the program if the repository is in a private folder. This is
        // no fault of the machine, so the test does not fail, not even if `CI` is set.
        let kind = Daemon::of_this_run();
        let mut version = kind.command(&programs);
        let version = version.arg("--help").uid(uid).output();
        if !version.is_ok_and(|output| output.status.success()) {
            let _ = writeln!(
                io::stderr(),
                "not run: user {uid} cannot reach the daemon's program"
            );
            return None;
        }
        let folder = Folder::empty();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let producer_socket = folder.file("producer").display().to_string();
        let mut daemon = daemon(kind, &programs, &folder, &producer_socket);
        let daemon = started(daemon.uid(uid), &folder);
        Some(Self {
            kind,
            programs,
            folder,
            producer_socket,
            daemon,
        })
    }

    /// Ends the daemon as `kill -9` does, and starts another one.
    pub fn restart(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        let mut daemon = daemon(
            self.kind,
            &self.programs,
            &self.folder,
            &self.producer_socket,
        );
        self.daemon = started(&mut daemon, &self.folder);
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.daemon), signal).unwrap();
    }

    /// Waits until the daemon has ended.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitStatus {
        wait_until(|| self.daemon.try_wait().unwrap().is_some());
        self.daemon.wait().unwrap()
    }

    /// Returns the daemon's descriptors and memory.
    pub fn possessions(&self) -> Possessions {
        Possessions::of(self.daemon.id())
    }

    /// Returns the daemon's producers and sessions, as a text.
    pub fn query(&self) -> String {
        let output = self.perfetto().arg("--query").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Checks that the daemon has no more descriptors than `before`, once connections have closed, and
    /// hardly more memory.
    #[track_caller]
    pub fn check_level(&self, before: Possessions, more_kib: usize) {
        wait_until(|| self.possessions().descriptors <= before.descriptors);
        self.possessions().check_level(before, more_kib);
    }

    /// Returns true if the daemon has `count` sessions.
    pub fn has_sessions(&self, count: usize) -> bool {
        self.query()
            .contains(&format!("Tracing sessions: {count} "))
    }

    /// Waits until `count` producers have registered `track_event` with the daemon.
    #[track_caller]
    pub fn wait_for_producers(&self, count: usize) {
        let is_source = |line: &&str| line.starts_with("track_event");
        wait_until(|| self.query().lines().filter(is_source).count() == count);
    }

    /// Waits until the daemon has a session in this state.
    #[track_caller]
    pub fn wait_for_session(&self, state: &str) {
        // The head of the table is skipped below, because it contains the word `STARTED`, too. The
        // line of a session has its number of buffers in parentheses.
        let is_in_state = |line: &str| line.contains(&format!(" {state} ")) && line.contains(" (");
        wait_until(|| {
            let query = self.query();
            let sessions = query.split("TRACING SESSIONS:").nth(1);
            sessions.is_some_and(|it| it.lines().skip(3).any(is_in_state))
        });
    }

    /// Starts Perfetto's producer of the state of the machine. `None` if the program is missing.
    pub fn probes(&self) -> Option<Program> {
        let probes = self.foreign_producer("traced_probes", &[]);
        if probes.is_none() {
            not_run("Perfetto's traced_probes, which ci/fetch.sh fetches by apt");
        }
        probes
    }

    /// Starts our producer of the state of the machine.
    pub fn our_probes(&self) -> Program {
        let mut probes = Command::new(tool());
        probes.arg("probes");
        self.producer(probes)
    }

    /// Starts a producer of Perfetto's SDK, which `ci/interop.sh` describes. `None` if it is missing.
    pub fn sdk_producer(&self, args: &[&str]) -> Option<Program> {
        self.foreign_producer("sdk_producer", args)
    }

    /// Starts one of Perfetto's own programs as a producer. `None` if the program is missing.
    fn foreign_producer(&self, name: &str, args: &[&str]) -> Option<Program> {
        let program = self.programs.join(name);
        if !program.exists() {
            return None;
        }
        let mut producer = Command::new(program);
        producer.args(args);
        Some(self.producer(producer))
    }

    fn producer(&self, mut command: Command) -> Program {
        let child = command
            .env("PERFETTO_PRODUCER_SOCK_NAME", &self.producer_socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Program::of(child)
    }

    /// Starts a recording with a configuration in text format.
    pub fn record(&self, name: &str, config: &str) -> Recording {
        let path = self.folder.file(name);
        let log = self.folder.file(format!("{name}.log"));
        let mut perfetto = self.perfetto();
        perfetto.args(["--txt", "-c", "-", "-o"]).arg(&path);
        let mut perfetto = perfetto
            .stdin(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut input = perfetto.stdin.take().unwrap();
        input.write_all(config.as_bytes()).unwrap();
        drop(input);
        Recording {
            perfetto,
            path,
            log,
        }
    }

    /// Returns the command `perfetto`, connected to the daemon.
    pub fn perfetto(&self) -> Command {
        let mut perfetto = Command::new(self.programs.join("perfetto"));
        self.connect(&mut perfetto);
        perfetto
    }

    /// Lets a command find the daemon.
    pub fn connect(&self, command: &mut Command) {
        command
            .env("PERFETTO_PRODUCER_SOCK_NAME", &self.producer_socket)
            .env("PERFETTO_CONSUMER_SOCK_NAME", self.consumer_socket());
    }

    fn consumer_socket(&self) -> PathBuf {
        self.folder.file("consumer")
    }

    /// Returns the address at which consumers connect.
    pub fn consumer_address(&self) -> Address {
        Address::Path(self.consumer_socket())
    }

    /// Returns the folder of the machine's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the command `perfetto` with pipes, in the folder of the machine.
    pub fn perfetto_with(&self, args: &[&str], input: &[u8]) -> Child {
        let mut perfetto = self.perfetto();
        perfetto.args(args).current_dir(self.folder.path());
        perfetto.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut perfetto = perfetto.stderr(Stdio::piped()).spawn().unwrap();
        // The command may have ended already.
        let _ = perfetto.stdin.take().unwrap().write_all(input);
        perfetto
    }

    /// Starts a program that connects to the daemon.
    pub fn program(&self, kind: &str) -> Program {
        self.program_called("program", kind)
    }

    /// Starts a program that connects to the daemon under a name.
    pub fn program_called(&self, name: &str, kind: &str) -> Program {
        self.program_at(self.producer_socket(), name, kind)
    }

    /// Returns the daemon's socket for producers.
    pub fn producer_socket(&self) -> &Path {
        Path::new(&self.producer_socket)
    }

    /// Returns the path of a new file or socket.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Starts a program that connects to a socket under a name.
    pub fn program_at(&self, socket: &Path, name: &str, kind: &str) -> Program {
        let by_environment = (kind == BY_ENVIRONMENT).then_some(("TRACEZERO_SYSTEM", "1"));
        let child = Command::new(env::current_exe().unwrap())
            .envs(by_environment)
            .args([
                "programs::is_a_producer",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(KIND, kind)
            .env(NAME, name)
            .env("PERFETTO_PRODUCER_SOCK_NAME", socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Program::of(child)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Returns the command that starts a daemon. Removes the sockets of an earlier daemon.
fn daemon(kind: Daemon, programs: &Path, folder: &Folder, producer_socket: &str) -> Command {
    for socket in ["producer", "consumer"] {
        let _ = fs::remove_file(folder.file(socket));
    }
    let mut command = kind.command(programs);
    command
        .env("PERFETTO_PRODUCER_SOCK_NAME", producer_socket)
        .env("PERFETTO_CONSUMER_SOCK_NAME", folder.file("consumer"))
        .stderr(Stdio::null());
    command
}

/// Starts a daemon, and waits until it listens.
fn started(daemon: &mut Command, folder: &Folder) -> Child {
    let daemon = daemon.spawn().unwrap();
    wait_until(|| UnixStream::connect(folder.file("consumer")).is_ok());
    daemon
}

/// A recording by the command `perfetto`.
pub struct Recording {
    perfetto: Child,
    path: PathBuf,
    log: PathBuf,
}

impl Recording {
    /// Waits until the command has written a clone of the session, and returns it.
    #[track_caller]
    pub fn clone_number(&self, number: usize) -> Vec<u8> {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        let is_written =
            |line: &str| line.contains("Wrote") && line.ends_with(&*path.to_string_lossy());
        wait_until(|| self.said(is_written));
        fs::read(path).unwrap()
    }

    /// Returns true if the command has written a line to its standard error for which `is_meant`
    /// returns true.
    pub fn said(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        let log = fs::read_to_string(&self.log).unwrap();
        log.lines().any(is_meant)
    }

    /// Waits until the session has ended by itself, and returns the trace.
    #[track_caller]
    pub fn wait(mut self) -> Vec<u8> {
        wait_until(|| self.perfetto.try_wait().unwrap().is_some());
        assert!(self.perfetto.wait().unwrap().success());
        fs::read(&self.path).unwrap()
    }

    /// Sends a signal to the command.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.perfetto), signal).unwrap();
    }

    /// Kills the command, which still runs.
    #[track_caller]
    pub fn kill(mut self) {
        let status = self.perfetto.try_wait().unwrap();
        assert!(status.is_none(), "the command has ended before: {status:?}");
        self.perfetto.kill().unwrap();
        self.perfetto.wait().unwrap();
    }

    /// Ends the recording as Ctrl-C does, and returns the trace.
    pub fn finish(mut self) -> Vec<u8> {
        self.signal(Signal::INT);
        assert!(self.perfetto.wait().unwrap().success());
        fs::read(&self.path).unwrap()
    }
}

/// Judges a trace in which spans may be open, and of which nothing may be lost.
#[track_caller]
pub fn judged(trace: &[u8]) -> Verdict {
    judged_by(trace, Options::default())
}

/// Judges a trace of programs of which some were killed, as [`judged`] does.
#[track_caller]
pub fn judged_after_kills(trace: &[u8]) -> Verdict {
    let options = Options {
        allow_killed_programs: true,
        ..Options::default()
    };
    judged_by(trace, options)
}

#[track_caller]
fn judged_by(trace: &[u8], mut options: Options) -> Verdict {
    options.allow_open_spans = true;
    let verdict = judge_with(trace, &ExtraSchema::new(), options).unwrap();
    // The buffer of `traced` reports a loss before the first packet of each sequence. Ours does not.
    let mut firsts = HashMap::new();
    for (index, packet) in verdict.packets.iter().enumerate() {
        let sequence_id = packet.trusted_packet_sequence_id();
        firsts.entry(sequence_id).or_insert(index);
    }
    let mut losses = verdict.losses.iter();
    let marks_firsts = Daemon::of_this_run() == Daemon::Traced;
    let is_first = |loss: &Loss| marks_firsts && firsts[&loss.sequence_id] == loss.packet;
    assert!(losses.all(is_first), "{:?}", verdict.losses);
    verdict
}
