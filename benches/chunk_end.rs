//! The cost of a chunk, with crash files and without: a thread fills it and returns it, and the service
//! copies it into a ring, whose pages are populated.
//!
//! ```sh
//! cargo bench -p tracezero-benches --bench chunk_end
//! ```
//!
//! The memory of a process is chosen once, so each run is a process. The runs take turns.

use std::error::Error;
use std::process::Command;
use std::time::Instant;
use std::{env, fs, process};

use tracezero::{BufferConfig, DataSource as _, TraceConfig, data_source};

/// The environment variable with the directory for crash files; empty for a run without them.
const DIRECTORY: &str = "CHUNK_END_DIRECTORY";

const RING_KIB: u32 = 16 * 1024;
/// The payload of a packet. It fills a chunk of 4 KiB but for a few bytes.
const PACKET_BYTES: usize = 4000;
/// The number of packets that overwrite the ring twice.
const WARM_UP: u64 = 2 * (RING_KIB as u64 * 1024) / PACKET_BYTES as u64;
const PACKETS: u64 = 20_000;
/// The number of times that a run measures. The fastest counts.
const ROUNDS: u32 = 20;
/// The number of runs of each kind.
const RUNS: usize = 9;

struct Packets;
data_source!(Packets, "com.example.packets");

fn main() -> Result<(), Box<dyn Error>> {
    // Run as a test: one round, whose time does not matter.
    let is_test = env::args().any(|argument| argument == "--test");
    if let Some(directory) = env::var_os(DIRECTORY) {
        let directory = directory.into_string().map_err(|_| "a path in UTF-8")?;
        let rounds = if is_test { 1 } else { ROUNDS };
        println!("{}", run(&directory, rounds)?);
        return Ok(());
    }
    let crash_files = format!("/dev/shm/tracezero-chunk-end-{}", process::id());
    let runs = if is_test { 1 } else { RUNS };
    let (mut plain, mut crash_safe) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        plain.push(run_in_process("", is_test)?);
        crash_safe.push(run_in_process(&crash_files, is_test)?);
    }
    fs::remove_dir_all(&crash_files)?;
    let (plain, crash_safe) = (median(&mut plain), median(&mut crash_safe));
    println!("a chunk without crash files: {plain:.0} ns");
    println!("a chunk with crash files:    {crash_safe:.0} ns");
    println!("ratio: {:.3}", crash_safe / plain);
    Ok(())
}

fn run_in_process(directory: &str, is_test: bool) -> Result<f64, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.env(DIRECTORY, directory);
    if is_test {
        command.arg("--test");
    }
    let output = command.output()?;
    let text = String::from_utf8(output.stdout)?;
    text.trim()
        .parse()
        .map_err(|_| format!("a run failed: {text}").into())
}

/// Returns the time per chunk, in nanoseconds.
fn run(directory: &str, rounds: u32) -> Result<f64, Box<dyn Error>> {
    let mut config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(RING_KIB))
        .record_all();
    if !directory.is_empty() {
        config = config.crash_safe_in(directory);
    }
    let session = config.record_in_memory()?;
    let text = "x".repeat(PACKET_BYTES);
    let write = |packets: u64| {
        for _ in 0..packets {
            Packets::trace(|cx| {
                cx.packet(|packet| {
                    packet.for_testing(|event| {
                        event.set_str(&text);
                    });
                });
            });
        }
    };
    write(WARM_UP);
    let mut fastest = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        write(PACKETS);
        fastest = fastest.min(start.elapsed().as_nanos() as f64 / PACKETS as f64);
    }
    let (_, report) = session.finish();
    assert_eq!(report.losses.dropped, 0, "{report}");
    Ok(fastest)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
