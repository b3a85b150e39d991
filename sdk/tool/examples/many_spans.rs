//! Records a large trace to try the tool on: four threads with nested spans, arguments, instants
//! and counters, and a span over the whole of it. The first argument is the approximate size of the
//! file in MB. With `plain` behind the file's name, the threads record spans alone.
//!
//! ```sh
//! cargo run --release --package tracezero-cli --example many_spans -- 2000 many_spans.pftrace
//! ```

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use tracezero::{
    BufferConfig, BufferExhaustedPolicy, DataSourceConfig, TraceConfig, counter, instant, span,
};

const THREADS: u64 = 4;
const RING_KIB: u32 = 16 * 1024;
/// The approximate size of one request in the file, as measured.
const REQUEST_BYTES: u64 = 470;
/// The same of a request of plain spans.
const PLAIN_REQUEST_BYTES: u64 = 196;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let size_mb: u64 = arguments.next().as_deref().unwrap_or("100").parse()?;
    let path = arguments
        .next()
        .unwrap_or_else(|| "many_spans.pftrace".to_owned());
    let (serve, request_bytes): (fn(u64), u64) = match arguments.next().as_deref() {
        Some("plain") => (serve_plainly, PLAIN_REQUEST_BYTES),
        _ => (serve, REQUEST_BYTES),
    };
    let began = Instant::now();
    let events = DataSourceConfig::new("track_event");
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(RING_KIB))
        .add_data_source(events.exhausted_policy(BufferExhaustedPolicy::Stall))
        .record_to_file(&path)?;
    let requests = size_mb * 1_000_000 / request_bytes / THREADS;
    let whole = span!("app", "whole");
    thread::scope(|scope| {
        for number in 0..THREADS {
            let worker = thread::Builder::new().name(format!("worker-{number}"));
            worker
                .spawn_scoped(scope, move || {
                    for request in 0..requests {
                        serve(number * requests + request);
                    }
                })
                .map(drop)?;
        }
        Ok::<(), std::io::Error>(())
    })?;
    drop(whole);
    let report = session.finish()?;
    println!("{report}");
    println!("{:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Records a request with everything inside it: 12 spans, an instant and 2 counter values.
fn serve(number: u64) {
    let _request = span!("http", "request", number, path = "/index.html");
    counter!("http", "requests", number);
    {
        let _parse = span!("http", "parse_header");
        for _ in 0..4 {
            let _line = span!("http", "parse_line");
        }
    }
    {
        let _query = span!("db", "query", table = "pages", rows = number % 100);
        for page in 0..3_u64 {
            let _read = span!("io", "read_page", page, bytes = 4096_u64);
        }
        if number.is_multiple_of(64) {
            instant!("db", "cache_miss", number);
            spin(Duration::from_micros(20));
        }
    }
    let _render = span!("http", "render");
    counter!("http", "open_files", number % 17);
    let _compress = span!("http", "compress");
    instant!("http", "sent");
}

/// Records seven spans.
fn serve_plainly(_: u64) {
    let _request = span!("http", "request");
    drop(span!("http", "parse_header"));
    {
        let _query = span!("db", "query");
        for _ in 0..2 {
            drop(span!("io", "read_page"));
        }
    }
    drop(span!("http", "render"));
    drop(span!("http", "compress"));
}

fn spin(duration: Duration) {
    let began = Instant::now();
    while began.elapsed() < duration {
        std::hint::spin_loop();
    }
}
