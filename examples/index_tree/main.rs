//! Builds a word index of all text files in a directory, with several threads, and traces itself
//! while it does so: spans per file and phase, counters, and packets with a schema of its own.
//!
//! `cargo run --release --example index_tree -- [DIR]`, then open `index_tree.pftrace` in
//! Perfetto's viewer.

mod index; // files to words
mod stats; // what a trace says about a file
mod table; // the slowest files, for people
mod walk; // a directory to files

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Parser;
use index::{Index, IndexedFile};
use indicatif::{ProgressBar, ProgressStyle};
use tracezero::{Session, counter, span};

/// Index the words of all text files in a directory, and trace it.
#[derive(Parser)]
struct Arguments {
    /// The directory to index [default: this repository].
    directory: Option<PathBuf>,
    /// Where the trace goes.
    #[arg(long, default_value = "index_tree.pftrace")]
    output: PathBuf,
    /// Threads that read files [default: one per processor].
    #[arg(long)]
    threads: Option<usize>,
    /// How many of the slowest files to list.
    #[arg(long, default_value_t = 10)]
    top: usize,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("index_tree: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = arguments.directory.as_deref().unwrap_or(repository);
    if !directory.is_dir() {
        return Err(format!("{} is not a directory", directory.display()).into());
    }
    let session = Session::to_file(&arguments.output)?;

    let files = walk::text_candidates(directory);
    let index = Index::default();
    let indexed = index_files(&files, directory, &index, threads(arguments));

    let report = session.finish()?;
    let skipped = files.len() - indexed.len();
    println!(
        "{} distinct words in {} files; {skipped} files are not text",
        index.distinct_words(),
        indexed.len(),
    );
    table::print_slowest(indexed, arguments.top);
    println!("\n{report}");
    Ok(())
}

fn threads(arguments: &Arguments) -> usize {
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    arguments.threads.unwrap_or_else(processors).max(1)
}

/// Shares the files out to threads; returns those that were text.
fn index_files(
    files: &[PathBuf],
    directory: &Path,
    index: &Index,
    threads: usize,
) -> Vec<IndexedFile> {
    let progress = ProgressBar::new(files.len() as u64).with_style(progress_style());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut indexed = Vec::new();
        // Relaxed: the number alone is shared; the files were there before the threads.
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let queued = files.len().saturating_sub(next.load(Ordering::Relaxed));
            counter!("index", "queued_files", queued);
            indexed.extend(index.add_file(path, directory));
            progress.inc(1);
        }
        indexed
    };
    let indexed = thread::scope(|scope| {
        let _span = span!(
            "index",
            "index_files",
            files = files.len(),
            threads = threads
        );
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                thread::Builder::new()
                    .name(format!("indexer {number}"))
                    .spawn_scoped(scope, work)
            })
            .collect();
        // A thread that cannot be started leaves its share to the others.
        workers
            .into_iter()
            .flatten()
            .flat_map(|worker| worker.join().expect("indexing does not panic"))
            .collect()
    });
    progress.finish_and_clear();
    indexed
}

fn progress_style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:40} {pos}/{len} files, {per_sec}, {eta} left")
        .expect("the template is valid")
}
