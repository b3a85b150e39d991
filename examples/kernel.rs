//! Records what the kernel does for this process, beside its own events:
//!
//! ```sh
//! cargo build --example kernel && sudo target/debug/examples/kernel
//! tracezero why nap kernel.pftrace
//! ```
//!
//! Without root, the trace has the names of processes and threads, and says what is missing.

use std::thread;
use std::time::Duration;

use tracezero::{TraceConfig, span};
use tracezero_probes::{EventGroup, Ftrace, KernelConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracezero_probes::register();
    if let Err(reason) = Ftrace::check() {
        eprintln!("no events of the kernel: {reason}");
    }
    let kernel = KernelConfig::new()
        .group(EventGroup::Sched)
        .group(EventGroup::Syscalls);
    let config = kernel.add_to(TraceConfig::default());
    let session = config.record_to_file("kernel.pftrace")?;
    for number in 0..10 {
        let _nap = span!("example", "nap", number);
        thread::sleep(Duration::from_millis(5));
    }
    println!("{}", session.finish()?);
    Ok(())
}
