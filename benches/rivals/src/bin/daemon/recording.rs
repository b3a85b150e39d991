//! One recording: a daemon, a program that records, and the command that takes the trace.

use std::env;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rivals::perfetto_trace::Spans;
use rivals::programs::{Running, wait_for};

use crate::Result;
use crate::sdks::{Policy, Sdk};

/// The size of the shared memory, unless the policy is the default.
const MEMORY_KIB: u32 = 256;

/// A recording to make.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub sdk: Sdk,
    pub policy: Policy,
    pub threads: usize,
    /// The number of spans of each thread.
    pub spans: u64,
    /// The period at which the daemon makes writers clear their incremental state, in ms; 0 for never.
    pub clear_period_ms: u32,
}

/// The programs of Perfetto.
#[derive(Debug)]
pub struct Programs {
    /// A folder with `traced` and `perfetto`.
    pub folder: PathBuf,
    /// The program made of `producer.cc`.
    pub cpp_producer: Option<PathBuf>,
}

/// The figures of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The time of the slowest thread.
    pub took: Duration,
    pub spans: Spans,
    /// The SDK's own figures, if it has them: the time that threads waited, and the number of times
    /// that they lost events.
    pub own: Option<(Duration, u64)>,
    /// The slices that the trace processor finds, if there is one.
    pub slices: Option<u64>,
}

impl Plan {
    fn config(&self) -> String {
        let policy = self.policy.in_config();
        let policy = policy.map_or(String::new(), |it| format!("buffer_exhausted_policy: {it}"));
        let memory = match self.policy {
            Policy::Default => String::new(),
            _ => format!("producers {{ shm_size_kb: {MEMORY_KIB} page_size_kb: 4 }}"),
        };
        // A size for which nothing is overwritten.
        format!(
            r#"
            buffers {{ size_kb: 1048576 }}
            data_sources {{ config {{
                name: "track_event" {policy}
                track_event_config {{ enabled_categories: "test" }}
            }} }}
            incremental_state_config {{ clear_period_ms: {} }}
            {memory}
            "#,
            self.clear_period_ms
        )
    }

    fn producer(&self, programs: &Programs) -> Result<Command> {
        let (threads, spans) = (self.threads.to_string(), self.spans.to_string());
        if self.sdk == Sdk::Cpp {
            let program = programs.cpp_producer.as_ref();
            let mut command = Command::new(program.ok_or("the C++ producer is missing")?);
            command.args([&threads, &spans, self.policy.name()]);
            return Ok(command);
        }
        let mut command = Command::new(env::current_exe()?);
        command.args(["record", self.sdk.name(), &threads, &spans]);
        if self.policy != Policy::Default {
            command.arg(MEMORY_KIB.to_string());
        }
        Ok(command)
    }

    /// Records, and counts what is in the trace. Files go to `folder`.
    pub fn run(&self, programs: &Programs, folder: &Path) -> Result<Outcome> {
        let sockets = [
            ("PERFETTO_PRODUCER_SOCK_NAME", folder.join("producer")),
            ("PERFETTO_CONSUMER_SOCK_NAME", folder.join("consumer")),
        ];
        let trace = folder.join("trace");
        let _ = fs::remove_file(&trace);
        let mut traced = Command::new(programs.folder.join("traced"));
        let mut traced = Running::start(traced.envs(sockets.clone()), "traced")?;
        // A socket is there before the daemon listens at it.
        let listens = |path: &PathBuf| UnixStream::connect(path).is_ok();
        let is_ready = || sockets.iter().all(|(_, path)| listens(path));
        wait_for(is_ready, "traced")?;

        let mut producer = self.producer(programs)?;
        let mut producer = Running::start(producer.envs(sockets.clone()), "the producer")?;
        let config = folder.join("config");
        fs::write(&config, self.config())?;
        let mut perfetto = Command::new(programs.folder.join("perfetto"));
        perfetto.arg("--txt").arg("-c").arg(&config);
        perfetto.arg("-o").arg(&trace).envs(sockets);
        let mut perfetto = Running::start(&mut perfetto, "perfetto")?;

        producer.line("started")?;
        let figures = producer.line("done")?;
        perfetto.signal("INT")?;
        perfetto.wait()?;
        producer.go_on()?;
        producer.wait()?;
        traced.signal("TERM")?;
        traced.wait()?;

        let figures: Vec<u64> = figures
            .split_ascii_whitespace()
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()?;
        let (&took_ns, own) = figures.split_first().ok_or("no figures")?;
        let own = match own {
            [waited_ns, losses] => Some((Duration::from_nanos(*waited_ns), *losses)),
            _ => None,
        };
        Ok(Outcome {
            took: Duration::from_nanos(took_ns),
            spans: Spans::of_file(&trace)?,
            own,
            slices: slices(programs, &trace)?,
        })
    }
}

/// Counts the finished slices by the trace processor, if the folder has it.
fn slices(programs: &Programs, trace: &Path) -> Result<Option<u64>> {
    let program = programs.folder.join("trace_processor_shell");
    if !program.exists() {
        return Ok(None);
    }
    let query = trace.with_extension("sql");
    fs::write(
        &query,
        "select count(*) as slices from slice where name = 'work' and dur >= 0;",
    )?;
    let output = Command::new(program)
        .arg("-q")
        .arg(&query)
        .arg(trace)
        .output()?;
    let output = String::from_utf8(output.stdout)?;
    let slices = output.lines().last().ok_or("no slices")?.parse()?;
    Ok(Some(slices))
}
