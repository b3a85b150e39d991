//! A service of three processes: one hands out orders, and two workers carry them out. None has a line
//! for the connection to a daemon. Record all three into one trace:
//!
//! ```sh
//! cargo build --example workers
//! tracezero record -- target/debug/examples/workers
//! tracezero view recording.pftrace
//! ```

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, io, thread};

use tracezero::{Flow, instant, span};

/// The number of orders.
const ORDERS: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        Some("worker") => work(),
        _ => hand_out(),
    }
}

/// Starts the workers, and gives each the next order in turn.
fn hand_out() -> Result<(), Box<dyn Error>> {
    let mut workers = [start_worker()?, start_worker()?];
    for order in 0..ORDERS {
        // The flow is an arrow from here to the span of the worker.
        let _span = span!("orders", "hand out", order, flow: &Flow::global(order));
        let worker = &mut workers[(order % 2) as usize];
        let input = worker.stdin.as_mut().ok_or("the worker has no input")?;
        writeln!(input, "{order}")?;
        thread::sleep(Duration::from_millis(2));
    }
    for mut worker in workers {
        drop(worker.stdin.take());
        let status = worker.wait()?;
        instant!("orders", "worker has ended", success = status.success());
    }
    Ok(())
}

fn start_worker() -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .arg("worker")
        .stdin(Stdio::piped())
        .spawn()
}

/// Carries out the orders that come on the standard input.
fn work() -> Result<(), Box<dyn Error>> {
    for line in io::stdin().lock().lines() {
        let order: u64 = line?.parse()?;
        let _span = span!("orders", "carry out", order, last_flow: &Flow::global(order));
        thread::sleep(Duration::from_millis(3));
    }
    Ok(())
}
