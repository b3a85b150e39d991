//! A deadlock, seen from outside: the open spans of a process that is stuck.
//!
//! `cargo run --example deadlock` starts itself as a child process, two threads of which wait for
//! each other's lock. It then reads the crash files of the child, which is not stopped and does not
//! help. The command does the same for any process: `tracezero inspect PID`.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{Barrier, Mutex};
use std::{env, fs, io, thread};

use tracezero::crash::LivingProcess;
use tracezero::reader::{Record, Slices, TraceReader};
use tracezero::{TraceConfig, span};

/// The environment variable that tells the child process where its crash files are.
const DIRECTORY: &str = "DEADLOCK_DIRECTORY";

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(directory) = env::var_os(DIRECTORY) {
        return deadlock(Path::new(&directory));
    }
    // In memory, and only for this program.
    let directory = PathBuf::from(format!("/dev/shm/tracezero-deadlock-{}", process::id()));
    let mut child = Command::new(env::current_exe()?)
        .env(DIRECTORY, &directory)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("the child has an output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    assert_eq!(line, "stuck\n");

    println!("process {} is stuck:", child.id());
    let spans = open_spans(child.id());
    child.kill()?;
    child.wait()?;
    fs::remove_dir_all(&directory)?;

    let spans = spans?;
    for span in &spans {
        println!("  {span}");
    }
    let expected = [
        "alice: transfer",
        "alice: lock the target",
        "bob: transfer",
        "bob: lock the target",
    ];
    assert_eq!(spans, expected);
    Ok(())
}

/// Returns the open spans of a process, with their threads.
fn open_spans(pid: u32) -> Result<Vec<String>, Box<dyn Error>> {
    let processes = LivingProcess::find(pid)?;
    let process = processes.first().ok_or("the process has crash files")?;
    let mut reader = TraceReader::new(process.read_session(0)?);
    let mut slices = Slices::<()>::new();
    while let Some(record) = reader.next()? {
        if let Record::Event(event) = record {
            slices.add(&event.head, |_| (), |_| {});
        }
    }
    let (tracks, names) = (reader.tracks(), reader.names());
    let mut spans: Vec<_> = slices
        .open()
        .map(|slice| {
            let thread = tracks.title(slice.begin.track, names);
            (thread, slice.begin.timestamp_ns, slice.begin.name)
        })
        .collect();
    spans.sort_unstable();
    let text = |(thread, _, name)| format!("{thread}: {}", names.text(name));
    Ok(spans.into_iter().map(text).collect())
}

/// The child process.
fn deadlock(directory: &Path) -> Result<(), Box<dyn Error>> {
    let _session = TraceConfig::default()
        .crash_safe_in(directory)
        .record_in_memory()?;
    let (alice, bob) = (Mutex::new(100), Mutex::new(100));
    // Both threads and this one meet here twice. At the first meeting, each thread holds its first
    // lock. At the second, each has begun the span in which it waits for its second lock.
    let meeting = Barrier::new(3);
    let transfer = |from: &Mutex<i32>, to: &Mutex<i32>| {
        let _span = span!("bank", "transfer", amount = 10);
        let mut from = from.lock().expect("no thread panics");
        meeting.wait();
        let _wait = span!("bank", "lock the target");
        meeting.wait();
        let mut to = to.lock().expect("no thread panics");
        (*from, *to) = (*from - 10, *to + 10);
    };
    thread::scope(|scope| {
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        thread("alice").spawn_scoped(scope, || transfer(&alice, &bob))?;
        thread("bob").spawn_scoped(scope, || transfer(&bob, &alice))?;
        meeting.wait();
        meeting.wait();
        writeln!(io::stdout(), "stuck")?;
        Ok(())
    })
}
