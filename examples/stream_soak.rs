//! Streams a trace of any size through a ring of 16 MiB into a file. Two threads write it; they
//! wait for room and do not drop packets. Prints the speed and the peak memory. Fails if a packet
//! is lost, or if the process ever used more than 64 MiB of memory.
//!
//! ```sh
//! cargo run --release --example stream_soak                     # 64 MiB, into a temporary file
//! cargo run --release --example stream_soak -- 10GiB            # the real thing
//! cargo run --release --example stream_soak -- 10GiB /dev/null  # without a disk
//! ```
//!
//! For comparison, the program first writes the same number of bytes without a session. It removes
//! the file at the end.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use tracezero::{
    BufferConfig, BufferExhaustedPolicy, DataSource, DataSourceConfig, Report, TraceConfig,
    data_source,
};

struct Soak;
data_source!(Soak, "com.example.soak");

const THREADS: u64 = 2;
const RING_KIB: u32 = 16 * 1024;
const MEMORY_MAX_KIB: u64 = 64 * 1024;
const TEXT_BYTES: usize = 1000;
/// The size of a write without a session, equal to that of a session's writes.
const WRITE_BYTES: usize = 64 * 1024;
const MIB: f64 = (1 << 20) as f64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let size_bytes = match arguments.next() {
        Some(size) => parse_size(&size).ok_or("the size is a number, with MiB or GiB behind it")?,
        None => 64 << 20,
    };
    let path = arguments.next().map_or_else(
        || env::temp_dir().join(format!("stream-soak-{}.pftrace", process::id())),
        PathBuf::from,
    );

    let plain = write_plainly(&path, size_bytes)?;
    let (report, streamed) = stream(&path, size_bytes)?;
    let memory_kib = peak_memory_kib()?;
    let is_file = fs::metadata(&path)?.is_file();
    let packets_in_file = is_file.then(|| count_packets(&path)).transpose();
    remove(&path)?;

    let speed = |bytes: u64, took: Duration| bytes as f64 / MIB / took.as_secs_f64();
    println!("{report}");
    println!("plain write: {:6.0} MiB/s", speed(size_bytes, plain));
    println!("session:     {:6.0} MiB/s", speed(report.bytes, streamed));
    println!("peak memory: {:6.1} MiB", memory_kib as f64 / 1024.0);
    if report.losses.total() > 0 {
        return Err("packets were lost".into());
    }
    if let Some(packets) = packets_in_file?
        && packets < report.packets_read
    {
        return Err(format!("the file has {packets} packets only").into());
    }
    if memory_kib > MEMORY_MAX_KIB {
        return Err(format!("more than {MEMORY_MAX_KIB} KiB of memory were in use").into());
    }
    Ok(())
}

/// Writes about `size_bytes` of packets into the file at `path`, through a session.
fn stream(path: &Path, size_bytes: u64) -> Result<(Report, Duration), tracezero::Error> {
    let soak = DataSourceConfig::new("com.example.soak");
    let began = Instant::now();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(RING_KIB))
        .add_data_source(soak.exhausted_policy(BufferExhaustedPolicy::Stall))
        .record_to_file(path)?;
    let packets = size_bytes / TEXT_BYTES as u64;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| write_packets(packets / THREADS));
        }
    });
    let report = session.finish()?;
    Ok((report, began.elapsed()))
}

fn write_packets(count: u64) {
    let text = "x".repeat(TEXT_BYTES);
    for number in 0..count {
        Soak::trace(|cx| {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_counter(number);
                    event.set_str(&text);
                });
            });
        });
    }
}

/// Writes `size_bytes` into the file at `path` without a session. Returns how long that took.
fn write_plainly(path: &Path, size_bytes: u64) -> io::Result<Duration> {
    let bytes = vec![b'x'; WRITE_BYTES];
    let began = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..size_bytes / WRITE_BYTES as u64 {
        file.write_all(&bytes)?;
    }
    match file.sync_all() {
        // A device such as `/dev/null` cannot be synced.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
        outcome => outcome?,
    }
    let took = began.elapsed();
    remove(path)?;
    Ok(took)
}

/// Removes `path` if it is a file; leaves devices alone.
fn remove(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Counts the packets of a trace file. Fails if the last one is cut off.
fn count_packets(path: &Path) -> io::Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut packets = 0;
    let mut tag = [0];
    while file.read(&mut tag)? == 1 {
        if tag != [0x0a] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let len_bytes = read_varint(&mut file)?;
        let skipped = io::copy(&mut file.by_ref().take(len_bytes), &mut io::sink())?;
        if skipped < len_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        packets += 1;
    }
    Ok(packets)
}

fn read_varint(file: &mut impl Read) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        file.read_exact(&mut byte)?;
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Ok(value);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Returns the peak memory of this process.
fn peak_memory_kib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"))
        .ok_or("/proc/self/status has no VmHWM")?;
    Ok(peak.trim().parse()?)
}

fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = match (text.strip_suffix("GiB"), text.strip_suffix("MiB")) {
        (Some(number), _) => (number, 1 << 30),
        (_, Some(number)) => (number, 1 << 20),
        (None, None) => (text, 1),
    };
    number.trim().parse::<u64>().ok()?.checked_mul(unit)
}
