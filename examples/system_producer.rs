//! A process that records into the trace of a daemon, `traced` or `tracezero daemon`. Start the daemon,
//! this program and a recording, each in a terminal of its own:
//!
//! ```sh
//! tracezero daemon
//! cargo run --release --example system_producer
//! perfetto -c examples/system_producer.txtpb --txt -o /tmp/machine.pftrace
//! ```

use std::error::Error;
use std::time::Duration;
use std::{env, thread};

use tracezero::{System, counter, span};

/// The default number of seconds that the program works.
const SECONDS: u64 = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = env::args().nth(1).map_or(Ok(SECONDS), |it| it.parse())?;
    // This line is all that a program needs.
    let system = System::connect()?;

    if !system.wait_connected(Duration::from_secs(1)) {
        println!("not connected yet: {:?}", system.state());
    }
    for second in 0..seconds {
        let _second = span!("work", "second", second);
        for step in 0..10 {
            let _step = span!("work", "step", step);
            counter!("work", "progress", second * 10 + step);
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}
