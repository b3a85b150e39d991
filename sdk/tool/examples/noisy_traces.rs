//! Makes traces of two sides, to try `tracezero diff` on: ten before and ten after, in which 40
//! functions are called 2,000 times each. Durations are log-normal with a standard deviation of the
//! logarithm of 0.5, and each trace is scaled by a factor of up to 3 %. The arguments are the folder,
//! by how many percent the first function is slower after, and a seed.
//!
//! ```sh
//! cargo run --release --package tracezero-cli --example noisy_traces -- noisy 2
//! tracezero diff noisy/before*.pftrace --with noisy/after*.pftrace
//! ```

use std::error::Error;
use std::f64::consts::PI;
use std::fs;
use std::path::Path;

use protozero::HeapBuffered;
use tracezero::protos::{Trace, track_event};

const TRACES: u64 = 10;
const FUNCTIONS: usize = 40;
const CALLS: usize = 2000;
const SIGMA: f64 = 0.5;
const FACTOR_MAX: f64 = 0.03;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("the first argument is the folder")?;
    let slower: f64 = arguments.next().as_deref().unwrap_or("2").parse()?;
    let seed: u64 = arguments.next().as_deref().unwrap_or("1").parse()?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let mut random = Random(seed << 32);
    for (side, ratio) in [("before", 1.0), ("after", 1.0 + slower / 100.0)] {
        for number in 0..TRACES {
            let path = folder.join(format!("{side}-{number}.pftrace"));
            fs::write(path, trace(&mut random, ratio))?;
        }
    }
    Ok(())
}

/// Encodes a trace of one thread. `ratio` is that of the first function.
fn trace(random: &mut Random, ratio: f64) -> Vec<u8> {
    let common = 1.0 + FACTOR_MAX * (2.0 * random.uniform() - 1.0);
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    trace.add_packet(|packet| {
        packet.set_trusted_packet_sequence_id(2);
        packet.track_descriptor(|track| {
            track.set_uuid(1).thread(|thread| {
                thread.set_pid(1).set_tid(1).set_thread_name("main");
            });
        });
    });
    let mut now_ns = 1_000_000_u64;
    for _ in 0..CALLS {
        for function in 0..FUNCTIONS {
            let mut typical_ns = 10_000.0 * (1 + function) as f64 * common;
            if function == 0 {
                typical_ns *= ratio;
            }
            let duration_ns = (typical_ns * (SIGMA * random.normal()).exp()) as u64;
            let name = format!("function_{function:02}");
            let ends = [
                (now_ns, track_event::Type::SLICE_BEGIN),
                (now_ns + duration_ns, track_event::Type::SLICE_END),
            ];
            for (time_ns, kind) in ends {
                trace.add_packet(|packet| {
                    packet.set_timestamp(time_ns);
                    packet.set_trusted_packet_sequence_id(2);
                    packet.track_event(|event| {
                        event.set_type(kind).set_track_uuid(1);
                        if kind == track_event::Type::SLICE_BEGIN {
                            event.set_name(&name);
                        }
                    });
                });
            }
            now_ns += duration_ns + 1000;
        }
    }
    drop(trace);
    buffer.to_vec()
}

/// A generator of random numbers (`SplitMix64`).
struct Random(u64);

impl Random {
    /// Returns a number from 0 to 1, but neither.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Returns a number of the standard normal distribution.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (2.0 * PI * self.uniform()).cos()
    }
}
