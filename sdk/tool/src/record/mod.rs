//! Records a program and all that it starts, or the machine.

mod config; // what is recorded
mod daemon; // a daemon of this process
mod kernel; // the kernel's half, by this process
mod live; // how the recording is going
mod processes; // the processes that a program has started
mod program; // the program, and signals
mod report; // what was recorded

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use tracezero_consumer::{Consumer, ConsumerError, DaemonSession};
use tracezero_core::own_attributes::refused_environment;
use tracezero_core::protos::TraceStatsDecoder;

use self::config::{Config, TRACK_EVENT};
use self::daemon::PrivateDaemon;
use self::kernel::KernelEvents;
use self::live::{LiveLine, Scope};
use self::processes::Processes;
use self::program::{Program, State, shell_status};
use self::report::Contents;
use crate::Outcome;
use crate::error::ToolError;
use crate::output::LateFile;
use crate::probes;
use crate::signals::Signals;
use crate::stop::no_such_key;
use crate::table::printable;
use crate::units::{plural, processes};

/// How often the command looks whether the program or the session has ended.
const TICK: Duration = Duration::from_millis(20);

/// The period at which the command looks for new processes and producers.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// The time without a producer after which the command prints what may be missing.
const NO_PRODUCER_AFTER: Duration = Duration::from_secs(2);

/// How long the kernel may take to start. It takes seconds for buffers of gigabytes.
const KERNEL_LIMIT: Duration = Duration::from_secs(60);

/// How long other data sources may take. Those of a session that waits for a trigger do not start.
const START_LIMIT: Duration = Duration::from_secs(5);

/// The limit of the size of a buffer, in KiB.
const BUFFER_MAX_KIB: u32 = 4 << 20;

/// The exit status if the recording has failed.
const FAILED: u8 = 2;

/// The exit status if nothing was recorded.
const NOTHING_RECORDED: u8 = 3;

/// The exit statuses if the program does not exist, and if it cannot be executed. They are those of
/// a shell.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// The maximum number of names of data sources that are noted.
const DATA_SOURCES_MAX: usize = 1000;

/// The maximum number of categories that a message lists.
const CATEGORIES_MAX: usize = 20;

/// The maximum number of forked processes without packets that are listed.
const LISTED_FORKS_MAX: usize = 10;

/// Records a program and everything that it starts, or the machine
///
/// With a program, a tracing daemon runs inside of this command. The program and all programs that it
/// starts record for it, if they are built with the feature `system` of tracezero, or with Perfetto's
/// SDK, and run as the same user. The recording ends when the program ends. Without a program, the
/// command records what runs on the machine, through the daemon that runs already: `tracezero daemon`,
/// or Perfetto's `traced`. Ctrl-C ends the recording, and the file is whole.
///
/// A report on the standard error says what was recorded of each process, and what was lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: tracezero record -o tests.pftrace -- cargo test

Or ten seconds of the machine: tracezero record -t 10s --categories http,db

Environment: for its program, this command sets TRACEZERO_SYSTEM=wait, PERFETTO_PRODUCER_SOCK_NAME and \
PERFETTO_CONSUMER_SOCK_NAME, which the program hands on to programs that it starts. To record the machine, \
start your programs with TRACEZERO_SYSTEM=1: they connect in the background, so their first events are not \
recorded. With TRACEZERO_SYSTEM=wait, they first wait until a daemon that runs has connected them, and miss \
no event. The daemon is the one whose sockets PERFETTO_PRODUCER_SOCK_NAME (for programs) and \
PERFETTO_CONSUMER_SOCK_NAME (for this command) name, or the one at the usual place.

Exit status: that of the program, also if events were lost, or 128 and the number of the signal that has \
ended the program or the recording; 126 or 127 if the program cannot be started; 3 if it has ended with \
status 0 and nothing was recorded; 2 if the recording has failed. Without a program, a signal ends the \
recording, and the exit status is 0. SIGINT (Ctrl-C), SIGTERM and SIGHUP go \
to the program as well. If the program still runs after 5 s, or if the signal comes again, the recording \
ends and the program is left alone.

A process that was made by fork() alone, without executing a program, records nothing. The report names \
such processes if they live longer than 0.2 s.")]
pub(crate) struct Args {
    /// The trace file; a file of this name is replaced
    #[arg(short, long, value_name = "FILE", default_value = "recording.pftrace")]
    output: PathBuf,
    /// The maximum duration of the recording, such as 500ms, 10s, 2m or 1h; a number alone is in seconds.
    /// Overrides the duration in --config. The program goes on afterwards
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// The size of the buffer between the programs and the file, such as 512kb, 64mb or 1gb; less than
    /// 4gb
    #[arg(long, value_name = "SIZE", default_value = "64mb", value_parser = parse_size_kib)]
    buffer: u32,
    /// The categories of events to record, separated by commas, such as http,db.*; all by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_category)]
    categories: Vec<String>,
    /// Record the kernel as well, of the whole machine: groups of events (sched, irq, syscalls, block,
    /// power), events such as net/net_dev_xmit, or system calls such as sys_fsync, separated by commas.
    /// Needs root, or the capability CAP_DAC_OVERRIDE. With --config, name linux.ftrace in the
    /// configuration instead; with --detach, also run `tracezero probes`
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', value_parser = kernel::parse_events, conflicts_with = "detach")]
    kernel: Vec<KernelEvents>,
    /// The size of the kernel's buffer for each CPU, such as 16mb; 2mb by default, or 8mb if the machine
    /// has at least 7 GiB of memory
    #[arg(long, value_name = "SIZE", value_parser = parse_size_kib, requires = "kernel")]
    kernel_buffer: Option<u32>,
    /// A configuration (TraceConfig) in place of --buffer and --categories, encoded or in protobuf's text
    /// format. Without write_into_file in it, the buffers are written when the recording ends: a ring then
    /// has its newest packets. With --detach, the file is always written meanwhile
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["buffer", "categories", "kernel"])]
    config: Option<PathBuf>,
    /// Show no line with the time, events and losses so far on a terminal
    #[arg(short, long)]
    quiet: bool,
    /// Let the recording of the machine go on without this command, until `tracezero stop KEY`
    #[arg(long, value_name = "KEY", conflicts_with = "program")]
    detach: Option<String>,
    /// Wait for the end of a recording that was detached; Ctrl-C ends it. -o is for a recording that does
    /// not write into a file
    #[arg(long, value_name = "KEY", conflicts_with_all = ["program", "detach", "config", "buffer", "categories", "kernel", "time"])]
    attach: Option<String>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let signals = Signals::note();
    match args.program.is_empty() {
        true => record_machine(args, &signals),
        false => record_program(args, &signals),
    }
}

/// Records through the daemon of the machine, until a signal or the end of the session.
fn record_machine(args: &Args, signals: &Signals) -> Result<Outcome, ToolError> {
    let mut consumer = Consumer::connect().map_err(|error| match &args.attach {
        Some(_) => ToolError::Consumer(error),
        None => ToolError::Usage(format!(
            "{error}. To record a program, name it: tracezero record -- PROGRAM"
        )),
    })?;
    if let Some(key) = &args.attach {
        return attach(args, consumer.attach(key), signals);
    }
    let config = config::config(args)?;
    let kernel = match args.kernel.is_empty() {
        true => None,
        false => Some(probes::offer(None, &mut consumer)?),
    };
    let mut recording = Recording::start(args, &config, consumer)?;
    if kernel.is_some() {
        recording.wait_until_started(KERNEL_LIMIT)?;
    }
    recording.begin()?;
    if let Some(key) = &args.detach {
        // Whoever runs a command next wants it to be recorded.
        recording.wait_until_started(START_LIMIT)?;
        recording.session.detach(key).map_err(ToolError::Consumer)?;
        print_lines(&[format!(
            "recording into {}; `tracezero stop {key}` ends it",
            args.output.display()
        )]);
        return Ok(Outcome::Fine);
    }
    let mut producers = Producers::default();
    producers.look(&mut recording.session);
    wait_for_signal(
        recording.live_line(Scope::Machine),
        &mut recording.session,
        signals,
    )?;
    producers.look(&mut recording.session);
    let contents = recording.finish()?;
    producers.print_missing(&config);
    print_lines(&contents.lines(&args.output, &BTreeMap::new()));
    if contents.has_anything() {
        return Ok(Outcome::Fine);
    }
    print_lines(&[
        "nothing was recorded: `tracezero status` lists the processes that are connected to the daemon. \
         A program with tracezero connects if TRACEZERO_SYSTEM=1 is in its environment"
            .to_owned(),
    ]);
    Ok(Outcome::Status(NOTHING_RECORDED))
}

/// Takes over a session. Returns after a signal, or when the session has ended.
fn attach(
    args: &Args,
    attached: Result<DaemonSession, ConsumerError>,
    signals: &Signals,
) -> Result<Outcome, ToolError> {
    let mut session = attached.map_err(|error| match (&args.attach, error) {
        (Some(key), ConsumerError::Failed { .. }) => no_such_key(key),
        (_, error) => ToolError::Consumer(error),
    })?;
    let live = LiveLine::start(args.quiet, Scope::Machine, false);
    wait_for_signal(live, &mut session, signals)?;
    let out = BufWriter::new(LateFile::new(&args.output));
    match session.read(out).map_err(ToolError::Consumer)? {
        0 => print_lines(&["the recording has ended".to_owned()]),
        packets => print_lines(&[format!(
            "{} written to {}",
            plural(packets, "packet"),
            args.output.display()
        )]),
    }
    Ok(Outcome::Fine)
}

/// Waits for a signal or the end of a session, and stops the session.
fn wait_for_signal(
    mut live: LiveLine,
    session: &mut DaemonSession,
    signals: &Signals,
) -> Result<(), ToolError> {
    while signals.count() == 0 && !session.has_ended(TICK).map_err(ToolError::Consumer)? {
        live.update(session);
    }
    live.clear();
    session.stop().map_err(ToolError::Consumer)
}

/// Records a program through a daemon inside this process.
fn record_program(args: &Args, signals: &Signals) -> Result<Outcome, ToolError> {
    for refused in refused_environment() {
        print_lines(&[format!("warning: {refused}")]);
    }
    let daemon = PrivateDaemon::start(args.config.is_none()).map_err(ToolError::Daemon)?;
    let mut consumer =
        Consumer::connect_to(&daemon.consumer_address()).map_err(ToolError::Consumer)?;
    let config = config::config(args)?;
    let kernel = match config.wants_kernel {
        true => Some(probes::offer(
            Some(&daemon.producer_socket()),
            &mut consumer,
        )?),
        false => None,
    };
    let mut recording = Recording::start(args, &config, consumer)?;
    if kernel.is_some() {
        recording.wait_until_started(KERNEL_LIMIT)?;
    }
    let mut program = match Program::start(&args.program, &daemon) {
        Ok(program) => program,
        Err(error) => return Ok(cannot_start(args, &error)),
    };
    recording.begin()?;
    let mut watch = Watch::of(
        program.id(),
        recording.live_line(Scope::Program {
            own: u64::from(kernel.is_some()),
        }),
    );
    let mut ended = watch.until_end(&mut recording.session, &mut program, signals);
    if ended.is_ok() {
        ended = recording.stop();
    }
    watch.producers.look(&mut recording.session);
    // The program may still run: whatever fails here, the command waits for it.
    let contents = ended.and_then(|()| recording.finish());
    drop(kernel);
    drop(daemon);
    let (contents, has_failed) = match contents {
        Ok(contents) => (contents, false),
        Err(error) => {
            print_lines(&[format!("error: the recording has failed: {error}")]);
            (Contents::default(), true)
        }
    };
    print_lines(&contents.lines(&args.output, &watch.producers.seen));
    watch.producers.print_missing(&config);
    watch.print_silent(&contents);
    if watch.state == State::Runs {
        print_lines(&["no longer recorded; waiting for the program to end".to_owned()]);
        watch.state = program.wait(signals)?;
    }
    let status = match watch.state {
        State::Ended(status) => shell_status(status),
        State::Runs | State::IsLeft => {
            print_lines(&["the program goes on, and is not recorded any more".to_owned()]);
            u8::try_from(128 + signals.number()).unwrap_or(FAILED)
        }
    };
    if has_failed {
        return Ok(Outcome::Status(FAILED));
    }
    if contents.has_anything() {
        return Ok(Outcome::Status(status));
    }
    print_lines(&[nothing_recorded(args, &watch.producers)]);
    Ok(Outcome::Status(match status {
        0 => NOTHING_RECORDED,
        of_program => of_program,
    }))
}

/// The observations of a program that is being recorded.
#[derive(Debug)]
struct Watch {
    state: State,
    processes: Processes,
    producers: Producers,
    live: LiveLine,
}

impl Watch {
    fn of(program: u32, live: LiveLine) -> Self {
        Self {
            state: State::Runs,
            processes: Processes::of(program),
            producers: Producers::default(),
            live,
        }
    }

    /// Waits until the program or the session has ended.
    fn until_end(
        &mut self,
        session: &mut DaemonSession,
        program: &mut Program,
        signals: &Signals,
    ) -> Result<(), ToolError> {
        let started = Instant::now();
        let (mut next_look, mut has_hinted) = (started, false);
        loop {
            self.state = program.look(signals)?;
            if self.state != State::Runs {
                break;
            }
            match session.has_ended(TICK) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    self.live.clear();
                    return Err(ToolError::Consumer(error));
                }
            }
            if Instant::now() >= next_look {
                next_look = Instant::now() + LOOK_PERIOD;
                self.processes.look();
                self.producers.look(session);
            }
            self.live.update(session);
            let is_silent = self.producers.count() == 0 && started.elapsed() >= NO_PRODUCER_AFTER;
            if is_silent && !has_hinted {
                has_hinted = true;
                self.live.clear();
                print_lines(&[format!("nothing is recorded yet: {NO_PRODUCER_REMEDY}")]);
            }
        }
        self.live.clear();
        Ok(())
    }

    /// Prints the forked processes that have recorded nothing.
    fn print_silent(&self, contents: &Contents) {
        let producers = &self.producers.seen;
        let has_recorded = |pid| contents.has_process(pid) || producers.contains_key(&pid);
        let silent: Vec<_> = self.processes.silent_forks(has_recorded).collect();
        for (pid, process) in silent.iter().take(LISTED_FORKS_MAX) {
            print_lines(&[format!(
                "  {pid:>8}  {}: forked by {}, recorded nothing: a fork records once it executes a \
                 program",
                process.name, process.parent
            )]);
        }
        if silent.len() > LISTED_FORKS_MAX {
            let more = silent.len() - LISTED_FORKS_MAX;
            print_lines(&[format!(
                "  and {more} more forked processes recorded nothing"
            )]);
        }
    }
}

/// The advice if a program does not record.
const NO_PRODUCER_REMEDY: &str = "a program records once it has reached a trace point, if it is built with \
    tracezero's feature `system` or with Perfetto's SDK";

/// Returns the message that says why a program has recorded nothing.
fn nothing_recorded(args: &Args, producers: &Producers) -> String {
    let connected = processes(producers.count());
    if producers.count() == 0 {
        return format!("nothing was recorded: {NO_PRODUCER_REMEDY}");
    }
    if args.config.is_some() {
        return format!(
            "nothing was recorded: {connected} connected, and had no event for the data sources of the \
             configuration; the macros' events belong to the data source `track_event`"
        );
    }
    if args.categories.is_empty() {
        return format!("nothing was recorded: {connected} connected, and had no event");
    }
    let known = match producers.categories.is_empty() {
        true => String::new(),
        false => {
            let names: Vec<&str> = producers.categories.iter().map(String::as_str).collect();
            format!("; the connected programs have: {}", names.join(", "))
        }
    };
    format!(
        "nothing was recorded: {connected} connected, and had no event of the categories {}{known}",
        args.categories.join(", ")
    )
}

/// A new file that becomes the trace file when `keep` is called. Until then, an existing trace file
/// stays. Without `keep`, the new file is removed.
#[derive(Debug)]
struct NewFile<'a> {
    file: PathBuf,
    output: &'a Path,
}

impl<'a> NewFile<'a> {
    /// Creates the file beside the trace file.
    fn create(output: &'a Path) -> Result<(Self, File), ToolError> {
        if output == Path::new("-") {
            return Err(ToolError::Usage(
                "a recording needs a file: name one with -o".to_owned(),
            ));
        }
        if output.exists() && !output.is_file() {
            let output = output.display();
            return Err(ToolError::Usage(format!(
                "{output} is no regular file: name another one with -o"
            )));
        }
        let mut name = output.file_name().unwrap_or_default().to_owned();
        name.push(format!(".new-{}", process::id()));
        let file = output.with_file_name(name);
        // The file is also readable, because the daemon reads the file when the session is cloned.
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let opened = options.open(&file).map_err(|source| ToolError::Write {
            path: output.to_owned(),
            source,
        })?;
        Ok((Self { file, output }, opened))
    }

    /// Renames the new file to the trace file, which it replaces.
    fn keep(self) -> Result<(), ToolError> {
        fs::rename(&self.file, self.output).map_err(|source| ToolError::Write {
            path: self.output.to_owned(),
            source,
        })
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        // After `keep`, there is no file with this name.
        let _ = fs::remove_file(&self.file);
    }
}

/// A session, and the file for its trace.
#[derive(Debug)]
struct Recording<'a> {
    args: &'a Args,
    session: DaemonSession,
    /// `None` once it is the trace file.
    new_file: Option<NewFile<'a>>,
    /// The file, if it is written when the recording ends.
    unwritten: Option<File>,
    /// True if the file is written when the recording ends.
    is_ring: bool,
}

impl<'a> Recording<'a> {
    fn start(args: &'a Args, config: &Config, consumer: Consumer) -> Result<Self, ToolError> {
        let (new_file, file) = NewFile::create(&args.output)?;
        let (session, unwritten) = match config.streams {
            true => (consumer.record_to_file(&config.encoded, file), None),
            false => (consumer.start(&config.encoded), Some(file)),
        };
        Ok(Self {
            args,
            session: session.map_err(ToolError::Consumer)?,
            new_file: Some(new_file),
            is_ring: unwritten.is_some(),
            unwritten,
        })
    }

    /// Waits until all data sources record, so that nothing of what comes next is missing.
    fn wait_until_started(&mut self, limit: Duration) -> Result<(), ToolError> {
        let started = self.session.wait_until_started(limit);
        if !started.map_err(ToolError::Consumer)? {
            print_lines(&["not all of the recording has started yet".to_owned()]);
        }
        Ok(())
    }

    /// Replaces an older trace, now that the program runs. A trace that is written when the recording
    /// ends replaces it only then.
    fn begin(&mut self) -> Result<(), ToolError> {
        match self.is_ring {
            true => Ok(()),
            false => self.keep_file(),
        }
    }

    fn live_line(&self, scope: Scope) -> LiveLine {
        LiveLine::start(self.args.quiet, scope, self.is_ring)
    }

    fn stop(&mut self) -> Result<(), ToolError> {
        self.session.stop().map_err(ToolError::Consumer)
    }

    /// Completes the file of a session that has stopped, and reads it.
    fn finish(mut self) -> Result<Contents, ToolError> {
        if let Some(file) = self.unwritten.take() {
            let out = BufWriter::new(file);
            self.session.read(out).map_err(ToolError::Consumer)?;
        }
        self.keep_file()?;
        let contents = Contents::of(&self.args.output)?;
        Ok(match self.is_ring {
            true => contents.expect_overwrites(),
            false => contents,
        })
    }

    fn keep_file(&mut self) -> Result<(), ToolError> {
        self.new_file.take().map_or(Ok(()), NewFile::keep)
    }
}

/// Prints why the program does not start. Returns the exit status that a shell would return.
fn cannot_start(args: &Args, error: &io::Error) -> Outcome {
    let program = args.program[0].display();
    print_lines(&[format!("error: {program} cannot be started: {error}")]);
    Outcome::Status(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    })
}

/// The producers of a private daemon that were connected at some time, without this command.
#[derive(Debug, Default)]
struct Producers {
    /// The names of producers, by process id.
    seen: BTreeMap<u32, String>,
    /// The names of their categories, as far as they are known.
    categories: BTreeSet<String>,
    /// The names of the data sources that they offer.
    data_sources: BTreeSet<String>,
    /// The number of other producers that the daemon has seen. Some were connected between two looks.
    connected: u64,
}

impl Producers {
    /// Notes which producers are connected now. Does nothing if the daemon does not answer.
    fn look(&mut self, session: &mut DaemonSession) {
        let Ok(state) = session.daemon_state() else {
            return;
        };
        let mut own = 0;
        for producer in state.producers {
            match u32::try_from(producer.pid) {
                // It records the kernel.
                Ok(pid) if pid == process::id() => own += 1,
                Ok(pid) => drop(self.seen.insert(pid, producer.name)),
                Err(_) => {}
            }
        }
        let stats = session.stats().unwrap_or_default();
        let connected = TraceStatsDecoder::new(&stats).producers_seen();
        let connected = connected.ok().flatten().unwrap_or_default();
        self.connected = connected.saturating_sub(own);
        for data_source in &state.data_sources {
            if self.data_sources.len() < DATA_SOURCES_MAX {
                self.data_sources.insert(data_source.name.clone());
            }
        }
        let categories = state.data_sources.into_iter().flat_map(|it| it.categories);
        let room = CATEGORIES_MAX.saturating_sub(self.categories.len());
        self.categories.extend(categories.take(room));
    }

    /// Prints which data sources of a configuration nobody has offered.
    fn print_missing(&self, config: &Config) {
        for name in &config.data_sources {
            // Programs that have no events offer this one only once they reach a trace point.
            if name != TRACK_EVENT && !self.data_sources.contains(name) {
                let remedy = match tracezero_probes::data_source_names().contains(&name.as_str()) {
                    true => ": `tracezero probes` records it",
                    false => "",
                };
                let name = printable(name);
                print_lines(&[format!("  no process has offered {name}{remedy}")]);
            }
        }
    }

    /// Returns the number of producers that were ever connected.
    fn count(&self) -> u64 {
        self.connected.max(self.seen.len() as u64)
    }
}

/// Prints to the standard error, since the standard output is the program's.
fn print_lines(lines: &[String]) {
    for line in lines {
        eprintln!("{line}");
    }
}

/// Trims the name or pattern of a category.
fn parse_category(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("name a category, such as http, or leave the option out".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// Parses a time such as `500ms`, `10s` or `2m`. A number alone is in seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let unit_s = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("give a number with ms, s, m or h, such as 10s".to_owned()),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * unit_s);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("{text:?} is no time: give one such as 10s"))
}

/// Parses a size such as `512kb` or `64mb`, and returns it in KiB.
fn parse_size_kib(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = split_unit(&lower);
    let unit_kib: u64 = match unit {
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 1 << 10,
        "g" | "gb" | "gib" => 1 << 20,
        _ => return Err("give a number with kb, mb or gb, such as 64mb".to_owned()),
    };
    let size = number.parse::<u64>().ok();
    size.and_then(|size| size.checked_mul(unit_kib))
        .and_then(|kib| u32::try_from(kib).ok())
        .filter(|kib| (1..BUFFER_MAX_KIB).contains(kib))
        .ok_or_else(|| format!("{text:?} is no size between 1kb and 4gb: give one such as 64mb"))
}

/// Splits a text before its first letter.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        let times = [
            ("500ms", 500),
            ("10s", 10_000),
            ("1.5", 1500),
            ("2m", 120_000),
        ];
        for (text, milliseconds) in times {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(milliseconds)));
        }
        for text in ["", "s", "0s", "-1s", "10 days", "1e400s", "nans"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_a_number_and_a_unit() {
        let sizes = [("512kb", 512), ("64MB", 65_536), ("1gib", 1 << 20)];
        for (text, kib) in sizes {
            assert_eq!(parse_size_kib(text), Ok(kib));
        }
        for text in ["", "mb", "0mb", "64", "5tb", "99999999gb", "-1kb"] {
            assert!(parse_size_kib(text).is_err(), "{text}");
        }
    }
}
