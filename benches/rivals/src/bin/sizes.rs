//! Prints the bytes that a span takes in the file of each SDK that has files.

use rivals::Recording;
use rivals::perfetto_recorder::PerfettoRecorder;
use rivals::perfetto_sdk::PerfettoSdk;
use rivals::tracezero::Tracezero;
use rivals::tracing_chrome::TracingChrome;

/// The number of spans, large enough to ignore the parts that a file has once.
const SPANS: u32 = 100_000;

/// A text of 16 bytes.
const TEXT: &str = "sixteen bytes ..";

fn main() {
    // A process can record only once with each SDK. So an argument chooses whether the spans have
    // arguments.
    let with_arguments = std::env::args().nth(1).as_deref() == Some("args");
    size::<Tracezero>(with_arguments);
    size::<PerfettoSdk>(with_arguments);
    size::<PerfettoRecorder>(with_arguments);
    size::<TracingChrome>(with_arguments);
}

fn size<R: Recording>(with_arguments: bool) {
    let recording = R::start();
    for index in 0..SPANS {
        if with_arguments {
            R::span_3_args(index as i32, 1234, TEXT);
        } else {
            R::span();
        }
    }
    if let Some(bytes) = recording.finish() {
        let bytes_per_span = bytes as f64 / f64::from(SPANS);
        println!("{}: {bytes_per_span:.1} bytes per span", R::SDK);
    }
}
