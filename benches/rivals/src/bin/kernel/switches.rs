//! A load that switches threads at a given rate: on each CPU, two threads hand a byte over to each other by pipes.
//!
//! Both threads of a pair may run on one CPU only. So a thread that waits for the byte makes place for the other, and
//! each hand-over is a `sched_waking`, a `sched_switch` and two system calls.

use std::env;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe, stdin};
use std::process::Command;
use std::str::FromStr;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use rivals::programs::Running;

use crate::Result;

/// How often a pair begins anew, unless it is behind.
const TICKS_PER_SECOND: u64 = 1000;

/// Hands over `count` times in all, and `per_second` times in a second; as often as possible if that is 0. Begins when
/// a line comes in, prints what it has taken, and ends with the next line.
pub fn run(per_second: u64, count: u64) -> Result<()> {
    let cpus = cpus()?;
    let pairs = cpus.len() as u64;
    let begin = Arc::new(Barrier::new(cpus.len() + 1));
    let threads = cpus.into_iter().map(|cpu| {
        let begin = Arc::clone(&begin);
        thread::spawn(move || pair(cpu, per_second / pairs, count / pairs, &begin))
    });
    let threads: Vec<_> = threads.collect();
    println!("ready");
    stdin().read_line(&mut String::new())?;
    let before = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    let start = Instant::now();
    begin.wait();
    for thread in threads {
        let ended = thread.join().map_err(|_| "a thread has panicked")?;
        ended.map_err(|error| error.to_string())?;
    }
    let took = start.elapsed().as_nanos();
    let processor = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)? - before;
    println!("done {took} {}", Duration::from(processor).as_nanos());
    stdin().read_line(&mut String::new())?;
    Ok(())
}

/// What a load has taken.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub time: Duration,
    pub processor: Duration,
}

impl FromStr for Taken {
    type Err = Box<dyn std::error::Error>;

    fn from_str(figures: &str) -> Result<Self> {
        let mut figures = figures.split_ascii_whitespace();
        let mut next = || -> Result<Duration> {
            let ns = figures.next().ok_or("no figures")?.parse()?;
            Ok(Duration::from_nanos(ns))
        };
        Ok(Self {
            time: next()?,
            processor: next()?,
        })
    }
}

/// Returns the command that starts this load.
pub fn command(per_second: u64, count: u64) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["switches", &per_second.to_string(), &count.to_string()]);
    Ok(command)
}

/// Lets a load run that has started. It is left waiting for the line that ends it.
pub fn let_run(load: &mut Running) -> Result<Taken> {
    load.line("ready")?;
    load.go_on()?;
    load.line("done")?.parse()
}

/// Returns the CPUs that this process may use.
fn cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu) == Ok(true))
        .collect())
}

/// Hands over on one CPU.
fn pair(
    cpu: usize,
    per_second: u64,
    count: u64,
    begin: &Barrier,
) -> std::result::Result<(), std::io::Error> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    // Threads inherit it.
    sched_setaffinity(Pid::from_raw(0), &set)?;
    let (from_other, to_this) = pipe()?;
    let (from_this, to_other) = pipe()?;
    let other = thread::spawn(move || echo(from_this, to_this));
    begin.wait();
    hand_over(per_second, count, from_other, to_other)?;
    // The pipe to the other thread is closed, so that one ends.
    match other.join() {
        Ok(ended) => ended,
        Err(_) => Err(std::io::Error::other("a thread has panicked")),
    }
}

fn hand_over(
    per_second: u64,
    count: u64,
    mut from_other: PipeReader,
    mut to_other: PipeWriter,
) -> std::io::Result<()> {
    let start = Instant::now();
    let mut byte = [0];
    for round in 0..count / 2 {
        if per_second > 0 && round % (per_second / 2 / TICKS_PER_SECOND).max(1) == 0 {
            let due = Duration::from_secs_f64(2.0 * round as f64 / per_second as f64);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
        to_other.write_all(&byte)?;
        from_other.read_exact(&mut byte)?;
    }
    Ok(())
}

fn echo(mut from_this: PipeReader, mut to_this: PipeWriter) -> std::io::Result<()> {
    let mut byte = [0];
    while from_this.read(&mut byte)? > 0 {
        to_this.write_all(&byte)?;
    }
    Ok(())
}
