//! Four programs whose spans wait for a known reason, to try `tracezero why` on:
//!
//! ```sh
//! cargo build --example waits
//! tracezero record --kernel sched,syscalls -- target/debug/examples/waits lock
//! tracezero why "take lock" recording.pftrace
//! ```
//!
//! | argument | the span | waits for |
//! |---|---|---|
//! | `lock`, or none | `take lock` | a mutex that another thread holds while it is in `hold lock` |
//! | `parking-lot` | `take lock` | the same with a mutex of `parking_lot`, which first gives its core away some times |
//! | `disk` | `write index` | the disk, in `fsync` |
//! | `cores` | `compute` | a core: there are twice as many threads as cores |

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Seek as _, Write as _};
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;
use std::time::{Duration, Instant};
use std::{env, io, thread};

use tracezero::span;

/// The number of times that each program waits.
const ROUNDS: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        None | Some("lock") => {
            let mutex = std::sync::Mutex::new(());
            contend(|hold| hold(&mut mutex.lock().expect("no thread panics")))
        }
        Some("parking-lot") => {
            let mutex = parking_lot::Mutex::new(());
            contend(|hold| hold(&mut mutex.lock()))
        }
        Some("disk") => write_index(),
        Some("cores") => compute(),
        _ => Err("give lock, parking-lot, disk or cores".into()),
    }
}

/// Takes a lock on two threads: one holds it for long, the other waits for it.
fn contend(lock: impl Fn(&mut dyn FnMut(&mut ())) + Sync) -> Result<(), Box<dyn Error>> {
    let holder = |is_held: Sender<()>| {
        for _ in 0..ROUNDS {
            let hold = span!("waits", "hold lock");
            lock(&mut |()| {
                // The other thread may have gone.
                let _ = is_held.send(());
                spin(Duration::from_millis(5));
            });
            drop(hold);
            // Leave the lock to the other thread.
            thread::sleep(Duration::from_millis(1));
        }
    };
    let (is_held, held) = mpsc::channel();
    thread::scope(|scope| {
        let holder = || holder(is_held);
        Builder::new()
            .name("holder".to_owned())
            .spawn_scoped(scope, holder)?;
        for () in held {
            let _take = span!("waits", "take lock");
            lock(&mut |()| {});
        }
        Ok(())
    })
}

/// Writes a file, and waits until it is on the disk.
fn write_index() -> Result<(), Box<dyn Error>> {
    let path = env::current_exe()?.with_extension("index");
    let mut file = File::create(&path)?;
    for _ in 0..ROUNDS {
        let _write = span!("waits", "write index");
        file.rewind()?;
        file.write_all(&[1; 1 << 20])?;
        file.sync_all()?;
    }
    Ok(fs::remove_file(path)?)
}

/// Computes on more threads than there are cores.
fn compute() -> Result<(), Box<dyn Error>> {
    let threads = 2 * thread::available_parallelism()?.get();
    thread::scope(|scope| {
        for number in 1..=threads {
            let compute = || {
                let _compute = span!("waits", "compute");
                spin(Duration::from_millis(200));
            };
            let name = format!("compute-{number}");
            Builder::new().name(name).spawn_scoped(scope, compute)?;
        }
        io::Result::Ok(())
    })?;
    Ok(())
}

/// Keeps a core busy for a time.
fn spin(duration: Duration) {
    let end = Instant::now() + duration;
    let mut sum = 0_u64;
    while Instant::now() < end {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(1));
    }
}
