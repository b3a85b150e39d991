//! Writes a trace of the official binding and one of `perfetto-recorder` into a folder, for
//! `ci/lake_foreign.sh`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::thread;

use rivals::Recording;
use rivals::perfetto_recorder::PerfettoRecorder;
use rivals::perfetto_sdk::PerfettoSdk;

/// The number of rounds of each thread.
const ROUNDS: i32 = 1000;
/// A text of 16 bytes.
const TEXT: &str = "sixteen bytes ..";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: foreign FOLDER")?;
    let folder = Path::new(&folder);
    let recording = PerfettoSdk::start();
    record::<PerfettoSdk>();
    fs::write(folder.join("perfetto-sdk.pftrace"), recording.into_trace())?;
    let recording = PerfettoRecorder::start();
    record::<PerfettoRecorder>();
    fs::write(
        folder.join("perfetto-recorder.pftrace"),
        recording.into_trace(),
    )?;
    Ok(())
}

/// Records on this thread and on another.
fn record<R: Recording>() {
    let work = || {
        for round in 0..ROUNDS {
            R::span();
            R::span_3_args(round, 1234, TEXT);
            if R::HAS_INSTANTS {
                R::instant();
            }
        }
    };
    work();
    thread::scope(|scope| {
        scope.spawn(work);
    });
}
