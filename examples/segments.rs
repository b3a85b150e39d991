//! A service that records all the time, in segments: files of limited size, each a trace of its own.
//! Complete segments are "uploaded": moved to another folder. All files together stay within a
//! budget, even if the upload is slow.
//!
//! `cargo run --example segments` writes `segments/segment-*.pftrace` and moves them to `uploaded/`.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tracezero::{Segment, Segments, Session, counter, span};

fn main() -> Result<(), Box<dyn Error>> {
    fs::create_dir_all("uploaded")?;
    let segments = Segments::new()
        .segment_bytes(256 << 10)
        .segment_duration(Duration::from_secs(1))
        .total_bytes(2 << 20)
        .on_complete(|segment| {
            if let Err(error) = upload(segment, Path::new("uploaded")) {
                eprintln!("{}: {error}", segment.path().display());
            }
        });
    let session = Session::record_to_segments("segments", segments)?;

    let started = Instant::now();
    let mut request = 0_u64;
    while started.elapsed() < Duration::from_secs(4) {
        serve(request);
        request += 1;
    }

    let report = session.finish()?;
    println!("{report}");
    Ok(())
}

/// Moves a segment away. A real program would send it to a store.
fn upload(segment: &Segment, to: &Path) -> Result<(), Box<dyn Error>> {
    let Some(name) = segment.path().file_name() else {
        return Ok(());
    };
    if let Err(error) = fs::rename(segment.path(), to.join(name)) {
        // The folder was full before the upload began.
        return if segment.is_removed() {
            Ok(())
        } else {
            Err(error.into())
        };
    }
    let events = segment.report().map_or(0, |report| report.events);
    println!("{}: {events} events", name.display());
    Ok(())
}

/// Pretends to answer a request.
fn serve(request: u64) {
    let _span = span!("server", "request", number = request);
    counter!("server", "requests", request);
    thread::sleep(Duration::from_micros(50));
}
