//! Programs, sessions and commands that come, go, stop and are killed at random, beside one daemon.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, mem, process, thread};

use fastrand::Rng;
use judge::{ExtraSchema, Options, judge_with};
use rustix::process::Signal;
use support::{Account, packets_of};

use crate::bad_configs::check_refused;
use crate::machine::{Daemon, Machine, Recording, wait_until};
use crate::recordings::EVERYTHING;
use crate::running::{Possessions, Program};

/// The environment variable with the number of seconds that this takes. The default is 5.
const SECONDS: &str = "TRACEZERO_DAEMON_SOAK_SECONDS";

/// The environment variable with the seed of the random choices. Each run says its seed.
const SEED: &str = "TRACEZERO_DAEMON_SOAK_SEED";

/// The kinds of programs: see [`crate::programs`].
const KINDS: [&str; 7] = [
    "ticks",
    "fast",
    "spans",
    "samples",
    "short lives",
    "exits",
    SDK,
];

/// A program of Perfetto's SDK, if there is one.
const SDK: &str = "sdk";

const PROGRAMS_MAX: usize = 5;
const SESSIONS_MAX: usize = 3;

/// The maximum size of a trace file.
const FILE_MAX_BYTES: usize = 8 << 20;

/// The number of parts. After each of them, all programs and sessions end.
const PARTS: u32 = 4;

/// The number of traces after which the level of memory and descriptors is taken.
const WARM_UP: u64 = 5;

/// How much more memory the daemon may have after a part than after the first, in KiB. The allocator
/// keeps what threads that write files have freed: 20 to 40 MiB. After 140 traces, 0.25 of 28 MB were
/// in use.
const MORE_KIB: usize = 48 * 1024;

/// A session, and the command that reads it.
struct Session {
    name: String,
    recording: Recording,
    config: String,
    /// True if it records programs of Perfetto's SDK, and no others.
    is_of_sdk: bool,
    /// True if it ends by itself, after a time.
    has_duration: bool,
    /// True if it ends by itself, when its file is full.
    has_file_limit: bool,
}

struct Soak {
    machine: Machine,
    random: Rng,
    probes: Option<Program>,
    programs: Vec<Program>,
    sessions: Vec<Session>,
    /// The number of sessions so far.
    begun: usize,
    counts: Counts,
}

/// The number of events of each kind so far.
#[derive(Debug, Default)]
struct Counts {
    programs: u64,
    kills: u64,
    stops: u64,
    traces: u64,
    clones: u64,
    refusals: u64,
    packets: u64,
    lost_packets: u64,
    /// Packets in traces of the SDK.
    sdk_packets: u64,
}

impl Soak {
    fn start_program(&mut self) {
        if self.programs.len() < PROGRAMS_MAX {
            let kind = self.random.choice(KINDS).unwrap();
            let program = match kind {
                SDK => self.machine.sdk_producer(&["2", "1000000", "drop"]),
                kind => Some(self.machine.program(kind)),
            };
            self.counts.programs += u64::from(program.is_some());
            self.programs.extend(program);
        }
    }

    fn a_program(&mut self) -> Option<usize> {
        (!self.programs.is_empty()).then(|| self.random.usize(..self.programs.len()))
    }

    fn kill_program(&mut self) {
        if let Some(index) = self.a_program() {
            self.programs.swap_remove(index).kill();
            self.counts.kills += 1;
        }
    }

    fn stop_program(&mut self) {
        if let Some(index) = self.a_program() {
            self.programs[index].stop();
            self.wait_a_moment();
            self.programs[index].signal(Signal::CONT);
            self.counts.stops += 1;
        }
    }

    fn start_session(&mut self) {
        if self.sessions.len() >= SESSIONS_MAX {
            return;
        }
        self.begun += 1;
        let name = format!("session-{}", self.begun);
        let random = &mut self.random;
        let size_kb = random.choice([64, 256, 1024, 4096]).unwrap();
        let policy = random.choice(["RING_BUFFER", "DISCARD"]).unwrap();
        let drops = random.choice(["", "buffer_exhausted_policy: BUFFER_EXHAUSTED_DROP"]);
        let has_duration = random.bool();
        let is_of_sdk = random.u8(..4) == 0;
        // Perfetto's SDK names a producer after the path of its program.
        let recorded = match is_of_sdk {
            true => r#"producer_name_regex_filter: ".*/sdk_producer""#,
            false => r#"producer_name_filter: "program""#,
        };
        let mut config = format!(
            r#"unique_session_name: "{name}"
            buffers {{ size_kb: {size_kb} fill_policy: {policy} }} buffers {{ size_kb: 64 }}
            data_sources {{
                config {{ name: "track_event" {} }} {recorded}
            }}
            data_sources {{ config {{ name: "com.example.samples" target_buffer: 1 }} }}
            data_sources {{ config {{
                name: "linux.sys_stats" target_buffer: 1
                sys_stats_config {{ meminfo_period_ms: 20 }}
            }} }}
            flush_timeout_ms: 300 data_source_stop_timeout_ms: 300 "#,
            drops.unwrap()
        );
        for more in [
            "flush_period_ms: 100 ",
            "incremental_state_config { clear_period_ms: 100 } ",
        ] {
            if random.bool() {
                config += more;
            }
        }
        let has_file_limit = random.bool();
        if has_file_limit {
            config += "write_into_file: true file_write_period_ms: 100 ";
            config += &format!("max_file_size_bytes: {FILE_MAX_BYTES} ");
        }
        if has_duration {
            config += &format!("duration_ms: {} ", random.u32(1..1000));
        }
        let recording = self.machine.record(&name, &config);
        self.sessions.push(Session {
            name,
            recording,
            config,
            is_of_sdk,
            has_duration,
            has_file_limit,
        });
    }

    fn a_session(&mut self) -> Option<Session> {
        let index = self.random.usize(..self.sessions.len().max(1));
        (index < self.sessions.len()).then(|| self.sessions.swap_remove(index))
    }

    fn end_session(&mut self) {
        if let Some(session) = self.a_session() {
            // The command handles signals only after it has connected. Before, the signal would
            // kill it.
            wait_until(|| session.recording.said(|line| line.contains("Connected")));
            let trace = match session.has_duration {
                true => session.recording.wait(),
                false => session.recording.finish(),
            };
            self.check(&session.config, session.is_of_sdk, &trace);
            self.counts.traces += 1;
        }
    }

    /// Kills a command, unless it may have ended by itself.
    fn kill_command(&mut self) {
        match self.a_session() {
            Some(session) if session.has_duration || session.has_file_limit => {
                self.sessions.push(session);
            }
            Some(session) => {
                session.recording.kill();
                // Waits until the daemon has removed the session. Until then, the session counts
                // toward the number of sessions that a user may have.
                wait_until(|| !self.machine.query().contains(&session.name));
                self.counts.kills += 1;
            }
            None => {}
        }
    }

    fn clone_session(&mut self) {
        let Some(session) = self.random.choice(&self.sessions) else {
            return;
        };
        let path = self.machine.file("clone");
        let mut command = self.machine.perfetto();
        command.args(["--clone-by-name", &session.name, "-o"]);
        let output = command.arg(&path).output().unwrap();
        // The session may have ended, or not begun.
        if output.status.success() && fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
            let (config, is_of_sdk) = (session.config.clone(), session.is_of_sdk);
            self.check(&config, is_of_sdk, &fs::read(&path).unwrap());
            self.counts.clones += 1;
        }
        let _ = fs::remove_file(path);
    }

    fn be_refused(&mut self) {
        let config = format!("{EVERYTHING} duration_ms: 700000000");
        check_refused(&self.machine, &config, ["is more"; 2]);
        self.counts.refusals += 1;
    }

    fn wait_a_moment(&mut self) {
        thread::sleep(Duration::from_millis(self.random.u64(0..100)));
    }

    /// Checks that readers take a trace, and that its account closes to the packet.
    #[track_caller]
    fn check(&mut self, session: &str, is_of_sdk: bool, trace: &[u8]) {
        let kept = kept();
        fs::write(&kept, trace).unwrap();
        // Traces of Perfetto's SDK are not judged: a recording may begin in the middle of a span,
        // so an end may have no begin.
        if !is_of_sdk {
            let options = Options {
                allow_open_spans: true,
                allow_unreadable_after_loss: true,
                allow_early_end: true,
                ..Options::default()
            };
            let schema = ExtraSchema::new().extensions("../../examples/protos/memory.proto");
            if let Err(problems) = judge_with(trace, &schema, options) {
                panic!("{session} in {kept:?}: {problems:#?}");
            }
        }
        // If the file reached its maximum size, it lacks the accounts that are written at the end
        // of a session.
        if trace.len() > FILE_MAX_BYTES - FILE_MAX_BYTES / 8 {
            return;
        }
        let account = Account::of(trace);
        let packets = packets_of(trace, &account.sequence_ids);
        let read = account.read + account.undecodable;
        assert_eq!(packets, read, "{session} in {kept:?}: {account:?}");
        let lost = account.dropped + account.overwritten + account.otherwise_lost;
        assert_eq!(
            account.begun,
            read + lost + account.in_flight + account.elsewhere,
            "{session} in {kept:?}: {account:?}"
        );
        self.counts.packets += account.begun;
        self.counts.sdk_packets += if is_of_sdk { packets } else { 0 };
        self.counts.lost_packets += lost;
    }

    fn act(&mut self) {
        match self.random.u8(..16) {
            0..3 => self.start_program(),
            3 => self.kill_program(),
            4 => self.stop_program(),
            5..8 => self.start_session(),
            8..10 => self.end_session(),
            10 => self.kill_command(),
            11 => self.clone_session(),
            12 => self.be_refused(),
            _ => self.wait_a_moment(),
        }
    }

    /// Ends all programs and sessions. Returns what the daemon has then.
    #[track_caller]
    fn calm_down(&mut self) -> Possessions {
        while !self.sessions.is_empty() {
            self.end_session();
        }
        for program in mem::take(&mut self.programs) {
            program.kill();
        }
        self.machine.wait_for_producers(0);
        wait_until(|| self.machine.has_sessions(0));
        self.machine.possessions()
    }
}

/// Returns the path at which the last trace is kept, so that a person can look into it after a
/// failure.
fn kept() -> PathBuf {
    let name = format!("daemon-soak-{}.pftrace", process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn a_daemon_serves_whatever_comes_and_goes() {
    // Only traces of our daemon contain the accounts that `check` needs.
    if Daemon::of_this_run() == Daemon::Traced {
        return;
    }
    let Some(machine) = Machine::start() else {
        return;
    };
    let seconds = env::var(SECONDS).map_or(5, |seconds| seconds.parse().unwrap());
    let seed = env::var(SEED).map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("{SEED}={seed}");
    let mut soak = Soak {
        probes: machine.probes(),
        machine,
        random: Rng::with_seed(seed),
        programs: Vec::new(),
        sessions: Vec::new(),
        begun: 0,
        counts: Counts::default(),
    };
    let whole = Duration::from_secs(seconds);
    let start = Instant::now();
    let mut level = None;
    for part in 1..=PARTS {
        while start.elapsed() < whole * part / PARTS {
            soak.act();
        }
        let now = soak.calm_down();
        println!("{:?}, {now:?}", soak.counts);
        if soak.counts.traces >= WARM_UP {
            soak.machine
                .check_level(*level.get_or_insert(now), MORE_KIB);
        }
    }
    drop(soak.probes);
    let _ = fs::remove_file(kept());
}
