//! A flight recorder: it records into memory all the time. It writes a file when a request was
//! slow, with the events before and after the request, and when a thread panics.
//!
//! `cargo run --example flight_recorder` writes `flight-slow_request-*.pftrace` and
//! `flight-panic-*.pftrace`.

use std::thread;
use std::time::Duration;

use tracezero::{FlightError, FlightRecorder, counter, span};

const SLOW_MS: u32 = 100;

fn main() -> Result<(), FlightError> {
    let recorder = FlightRecorder::builder()
        .ring_kib(4 * 1024)
        .keep(Duration::from_secs(30))
        .min_interval(Duration::from_secs(60)) // between files of one name
        .max_files(4)
        .snapshot_on_panic()
        .on_saved(|name, file| match file {
            Ok(path) => println!("{name}: {}", path.display()),
            Err(error) => eprintln!("{name}: {error}"),
        })
        .start()?;

    for request in 0..300_u32 {
        let took_ms = serve(request);
        if took_ms > SLOW_MS {
            // Saves the events from 10 s before now to 50 ms after now, in the background. At most
            // one file per minute is written for slow requests.
            recorder
                .around(
                    "slow request",
                    Duration::from_secs(10),
                    Duration::from_millis(50),
                )
                .save_in_background();
        }
    }
    // The panic hook writes the file before the thread unwinds.
    let worker = thread::spawn(|| {
        counter!("server", "workers", 1);
        panic!("no worker lives for ever");
    });
    println!("the worker panicked: {}", worker.join().is_err());

    let stats = recorder.stop();
    println!(
        "{} saved, {} in the same file, {} too soon",
        stats.saved, stats.joined, stats.too_soon
    );
    Ok(())
}

/// Pretends to answer a request. Returns the milliseconds that it pretends to have taken.
fn serve(request: u32) -> u32 {
    let _span = span!("server", "request", number = request);
    thread::sleep(Duration::from_micros(500));
    let took_ms = if request % 100 == 70 {
        250
    } else {
        request % 50
    };
    counter!("server", "took_ms", took_ms);
    took_ms
}
