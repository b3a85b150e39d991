//! Writes the traces of a fleet, to try queries on: `fleet FOLDER TRACES SLICES`.
//!
//! Each trace has requests with four calls inside. The durations of calls are distributed log-normally.

use std::error::Error;
use std::fs;
use std::path::Path;

use tracezero::{BufferConfig, TraceConfig, clock, span};

const CALLS: [&str; 8] = [
    "parse",
    "authorize",
    "look up",
    "query",
    "render",
    "compress",
    "log",
    "send",
];
/// The number of calls of a request.
const CALLS_PER_REQUEST: u64 = 4;
const MEDIAN_NS: f64 = 20_000.0;
const SIGMA: f64 = 0.5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, traces, slices] = &arguments[..] else {
        return Err("usage: fleet FOLDER TRACES SLICES".into());
    };
    let (traces, slices): (u64, u64) = (traces.parse()?, slices.parse()?);
    fs::create_dir_all(folder)?;
    let mut random = Random(1);
    for number in 0..traces {
        let session = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(16 << 10))
            .record_all()
            .record_in_memory()?;
        // The durations are not real, so the times are those of the past.
        let mut now_ns = clock::now_ns() - slices * MEDIAN_NS as u64 * 2;
        for request in 0..slices / (CALLS_PER_REQUEST + 1) {
            now_ns = serve(request, now_ns, &mut random);
        }
        let (trace, report) = session.finish();
        assert_eq!(report.losses.total(), 0, "{report}");
        fs::write(
            Path::new(folder).join(format!("{number:04}.pftrace")),
            trace,
        )?;
    }
    Ok(())
}

/// Records a request that begins at a time. Returns the time of its end.
fn serve(number: u64, mut now_ns: u64, random: &mut Random) -> u64 {
    let request = span!("http", "request", at: now_ns, number);
    now_ns += 100;
    for _ in 0..CALLS_PER_REQUEST {
        let name = CALLS[(random.next() * CALLS.len() as f64) as usize];
        let call = span!("http", name, at: now_ns);
        now_ns += random.duration_ns();
        call.end_at(now_ns);
        now_ns += 100;
    }
    request.end_at(now_ns);
    now_ns + 100
}

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    /// Returns a number from 0 up to 1.
    fn next(&mut self) -> f64 {
        const FACTOR: u64 = 6_364_136_223_846_793_005;
        self.0 = self.0.wrapping_mul(FACTOR).wrapping_add(1);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn duration_ns(&mut self) -> u64 {
        // The sum of twelve uniform numbers is close to a normal distribution.
        let normal = (0..12).map(|_| self.next()).sum::<f64>() - 6.0;
        (MEDIAN_NS * (SIGMA * normal).exp()) as u64
    }
}
