//! `sustained`: measures how much an SDK records into a file, and for how long it can keep that up.
//! Threads make spans with two arguments in tight loops. Each SDK runs in a process of its own.
//!
//! ```sh
//! sustained                                # 1, 2 and 4 threads for 10 s, all SDKs
//! sustained --seconds 2 --threads 1,2 --sdk tracezero,dial9
//! sustained --folder /mnt/disk             # files go there; the default is the temporary folder
//! ```
//!
//! Decoders that are not ours count the spans in the file. The files are removed.

mod count; // counts the spans in a file
mod record; // one SDK, one file
mod sdks; // each SDK, recording into a file

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rivals::programs::with_folder;

use record::Measurements;
use sdks::Sdk;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Options {
    seconds: u64,
    threads: Vec<usize>,
    sdks: Vec<Sdk>,
    folder: PathBuf,
}

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [command, sdk, threads, seconds, file] = &arguments[..]
        && command == "record"
    {
        let recorded = record::record(
            sdk.parse()?,
            threads.parse()?,
            seconds.parse()?,
            file.as_ref(),
        );
        println!("{recorded}");
        return Ok(());
    }
    let options = Options::parse(&arguments)?;
    println!(
        "Spans with two arguments, {} s, {} cores.\n",
        options.seconds,
        std::thread::available_parallelism()?
    );
    println!("{HEAD}");
    for sdk in &options.sdks {
        for threads in &options.threads {
            println!("{}", row(*sdk, *threads, &options)?);
        }
    }
    Ok(())
}

const HEAD: &str = "\
| SDK | threads | spans per second | in the file per second | lost | writers blocked | finishing | peak memory | file |
|---|---|---|---|---|---|---|---|---|";

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            seconds: 10,
            threads: vec![1, 2, 4],
            sdks: Sdk::ALL.to_vec(),
            folder: env::temp_dir(),
        };
        for pair in arguments.chunks(2) {
            let [option, value] = pair else {
                return Err(format!("{}: a value is missing", pair[0]).into());
            };
            let values = value.split(',');
            match option.as_str() {
                "--seconds" => options.seconds = value.parse()?,
                "--threads" => {
                    options.threads = values
                        .map(str::parse)
                        .collect::<std::result::Result<_, _>>()?
                }
                "--sdk" => options.sdks = values.map(str::parse).collect::<Result<_>>()?,
                "--folder" => options.folder = value.into(),
                _ => return Err(format!("{option}: not an option").into()),
            }
        }
        Ok(options)
    }
}

/// Measures one SDK with a number of threads. Returns a row of the table.
fn row(sdk: Sdk, threads: usize, options: &Options) -> Result<String> {
    with_folder(&options.folder, "sustained", |folder| {
        row_in(folder, sdk, threads, options.seconds)
    })
}

fn row_in(folder: &Path, sdk: Sdk, threads: usize, seconds: u64) -> Result<String> {
    let output = Command::new(env::current_exe()?)
        .args([
            "record",
            sdk.name(),
            &threads.to_string(),
            &seconds.to_string(),
        ])
        .arg(folder.join("trace"))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        // An SDK that keeps events in memory may run out of memory. That is a result, too.
        return Ok(format!(
            "| {} | {threads} | {} | | | | | | |",
            sdk.name(),
            output.status
        ));
    }
    let text = String::from_utf8(output.stdout)?;
    let recorded: Measurements = text.trim().parse()?;
    let files: Vec<_> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    let mut bytes = 0;
    let mut spans = 0;
    for file in &files {
        bytes += fs::metadata(file)?.len();
        spans += count::spans_in(sdk, file)?;
    }
    let millions = |spans: u64, seconds: f64| spans as f64 / seconds / 1e6;
    let lost = recorded.spans.saturating_sub(spans);
    Ok(format!(
        "| {} | {threads} | {:.2} M | {:.2} M | {} | {:.0} % | {:.1} s | {:.0} MiB | {:.0} MiB |",
        sdk.name(),
        millions(recorded.spans, recorded.seconds),
        millions(spans, recorded.seconds + recorded.finishing_seconds),
        match lost {
            0 => "0".to_owned(),
            _ => format!(
                "{lost} ({:.1} %)",
                100.0 * lost as f64 / recorded.spans as f64
            ),
        },
        100.0 * recorded.blocked_seconds / (recorded.seconds * threads as f64),
        recorded.finishing_seconds,
        recorded.peak_memory_kib as f64 / 1024.0,
        bytes as f64 / f64::from(1 << 20),
    ))
}
