//! A request that goes through two services. Each is a process that records a file of its own. The one
//! that calls hands on the header `traceparent` of W3C Trace Context, as with HTTP; so the files, merged,
//! have an arrow from each call to its answer:
//!
//! ```sh
//! cargo run --example request_over_services
//! tracezero summary stock.pftrace
//! tracezero merge front.pftrace stock.pftrace -o both.pftrace
//! tracezero view both.pftrace
//! ```
//!
//! With Perfetto's trace processor, this lists all spans of a request, in both services:
//!
//! ```sql
//! SELECT ts, dur, name FROM slice JOIN args USING (arg_set_id)
//! WHERE args.key = 'correlation_id' AND args.string_value = '4bf92f3577b34da6a3ce929d0e0e4736'
//! ```

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, io, thread};

use tracezero::{Session, Traceparent, set_service, span};

/// The number of requests.
const REQUESTS: u32 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        Some("stock") => stock(),
        _ => front(),
    }
}

/// The service that gets requests from outside, and asks the other one.
fn front() -> Result<(), Box<dyn Error>> {
    set_service("front", env!("CARGO_PKG_VERSION"));
    let session = Session::record_to_file("front.pftrace")?;
    let mut stock = Command::new(env::current_exe()?)
        .arg("stock")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut to_stock = stock.stdin.take().ok_or("stock has no input")?;
    let mut from_stock = BufReader::new(stock.stdout.take().ok_or("stock has no output")?).lines();
    let mut last = None;
    for number in 0..REQUESTS {
        // A request from outside may bring a header; these begin here.
        let request = Traceparent::root();
        let _request = span!("shop", "order", number, correlation: &request);
        let call = request.child();
        let _call = span!("shop", "ask stock", flow: &call.flow(), correlation: &call);
        // With HTTP, the context would be the value of the header `traceparent`.
        writeln!(to_stock, "{call}")?;
        from_stock.next().ok_or("stock does not answer")??;
        last = Some(request);
    }
    drop(to_stock);
    stock.wait()?;
    println!("{}", session.finish()?);
    let last = last.ok_or("there was no request")?;
    println!("the trace id of the last request: {:032x}", last.trace_id());
    Ok(())
}

/// The service that is asked. Headers come on the standard input, answers go to the standard output.
fn stock() -> Result<(), Box<dyn Error>> {
    set_service("stock", env!("CARGO_PKG_VERSION"));
    let session = Session::record_to_file("stock.pftrace")?;
    for header in io::stdin().lock().lines() {
        // A request without a sound header is answered as well; its span joins no other.
        match header?.parse::<Traceparent>() {
            Ok(call) => {
                let _span = span!("shop", "look up", last_flow: &call.flow(), correlation: &call);
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => {
                let _span = span!("shop", "look up", %error);
                thread::sleep(Duration::from_millis(2));
            }
        }
        println!("in stock");
    }
    session.finish()?;
    Ok(())
}
