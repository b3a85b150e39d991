//! Indexes the words of a directory tree with several threads, and traces how it does so.
//!
//! ```sh
//! cargo run --release --example index_tree -- [DIR]
//! ```
//!
//! The main thread walks the tree and hands files to workers. Each worker reads, tokenizes and
//! indexes one file after the other. At the end their indexes are merged. The trace shows these
//! steps as spans, the length of the queue and the bytes that were read as counters, and the
//! statistics of every file as packets with a schema of their own.

mod walk; // finds the files
mod queue; // from the main thread to the workers
mod worker; // index files, one thread each
mod read; // reads the text of a file
mod index; // words and the index
mod file_stats; // the data source of the statistics
mod report; // the text for the user

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tracezero::{Session, span};

use self::report::Outcome;
use self::worker::Shared;

/// Indexes the words of all text files in a directory, and records a trace of it.
#[derive(Parser)]
struct Args {
    /// The directory to index [default: this repository, or the current directory]
    dir: Option<PathBuf>,
    /// Where the trace is written to
    #[arg(long, value_name = "PATH", default_value = "index_tree.pftrace")]
    output: PathBuf,
    /// Threads that read files [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let root = directory(args)?;
    let session = Session::record_to_file(&args.output).map_err(Failure::Trace)?;
    let started = Instant::now();
    let recorded = index_tree(&root, args).and_then(|outcome| {
        let duration = started.elapsed();
        let trace = session.finish().map_err(Failure::Trace)?;
        Ok((outcome, duration, trace))
    });
    let (outcome, duration, trace) = recorded.inspect_err(|_| remove_partial(&args.output))?;
    let mut text = outcome.report(&root, duration, args.top);
    text.push_str(&format!("trace: {trace}\n"));
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(Failure::Output)
}

/// Returns the directory to index, after checking that it can be listed.
fn directory(args: &Args) -> Result<PathBuf, Failure> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        // Cargo sets this variable for programs that it runs.
        None => std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from),
    };
    fs::canonicalize(&dir)
        .and_then(|root| fs::read_dir(&root).map(|_| root))
        .map_err(|source| Failure::Directory { dir, source })
}

fn index_tree(root: &Path, args: &Args) -> Result<Outcome, Failure> {
    let thread_count = args
        .threads
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    let _span = span!("main", "index_tree", threads = thread_count);
    // Skip the trace file: it changes while it is read.
    let trace_path = fs::canonicalize(&args.output).ok();
    let shared = Shared::new(root, progress_bar());
    thread::scope(|scope| {
        let mut outcome = Outcome::default();
        // Closes the queue however this function returns, so the workers end.
        let closing = shared.queue.close_on_drop();
        let mut workers = Vec::new();
        for number in 1..=thread_count {
            let worker = thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn_scoped(scope, || worker::work(&shared))
                .map_err(Failure::Thread)?;
            workers.push(worker);
        }
        for entry in walk::files(root) {
            match entry {
                Ok(path) if Some(&path) == trace_path.as_ref() => {}
                Ok(path) => {
                    shared.progress.inc_length(1);
                    shared.queue.push(path);
                }
                Err(unreadable) => outcome.unreadable.push(unreadable),
            }
        }
        drop(closing);
        for worker in workers {
            let finished = worker.join();
            outcome.merge(finished.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        shared.progress.finish_and_clear();
        Ok(outcome)
    })
}

/// Returns the progress bar, which is only shown on a terminal.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files, {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Removes the trace of a run that failed, if it is a file and not, for example, `/dev/full`.
fn remove_partial(path: &Path) {
    if path.is_file() {
        // The first error matters more to the user than this one.
        let _ = fs::remove_file(path);
    }
}

/// The error that stopped the program.
enum Failure {
    Directory { dir: PathBuf, source: io::Error },
    Trace(tracezero::Error),
    Thread(io::Error),
    Output(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { dir, source } => {
                write!(f, "cannot read the directory {}: {source}", dir.display())
            }
            Self::Trace(source) => write!(f, "{source}"),
            Self::Thread(source) => write!(f, "cannot start a worker thread: {source}"),
            Self::Output(source) => write!(f, "cannot print the report: {source}"),
        }
    }
}
