//! All that the macros accept: spans, instants and counters, arguments of many types, names made at
//! run time, and timestamps that you choose.
//!
//! `cargo run --example events` writes `events.pftrace`.

use std::path::Path;
use std::time::Duration;

use tracezero::{ArgValue, Session, begin, clock, counter, dict, end, instant, span};

fn main() -> Result<(), tracezero::Error> {
    let session = Session::record_to_file("events.pftrace")?;
    spans();
    arguments();
    times();
    println!("{}", session.finish()?);
    Ok(())
}

fn spans() {
    let _outer = span!("events", "outer"); // ends with this function
    for number in 1..=3 {
        // A name that is not a literal is written into the trace as text.
        let _pass = span!("events", format!("pass {number}"));
        std::thread::sleep(Duration::from_micros(200));
    }

    // `end!` takes the guard, and arguments that are only known at the end, such as a result.
    let sum = span!("events", "sum");
    let total: u64 = (1..=1000).sum();
    end!(sum, total);

    // A slice that does not match a scope begins and ends by hand. Its end takes arguments, too.
    begin!("events", "by hand");
    end!("events", result = "fine");
}

fn arguments() {
    let path = Path::new("Cargo.toml");
    let (attempt, ratio) = (3, 0.75);
    let error = std::io::Error::other("no such luck");
    instant!(
        "events",
        "failed",
        path,                           // the variable `path`
        attempt = attempt + 1,          // an expression
        ratio,                          // numbers stay numbers
        %error,                         // by `Display`
        state = ?Some("waiting"),       // by `Debug`
        "http.status" = 404,            // a name that is not an identifier
        sizes = [1, 2, 4],              // an array
        window = dict(|window| {        // a dictionary
            window.add("width", &640).add("height", &480);
        }),
        source = Source::Disk { page: 7 }, // a type of your own
        wait_ns = Duration::from_micros(3), // a duration, in nanoseconds
    );
    // Calls `costly` only while a session records this category.
    instant!("events", "costly", value = costly());
}

#[derive(ArgValue)]
enum Source {
    Disk { page: u32 },
}

fn costly() -> u64 {
    (1..=20).product()
}

/// Records events that happened earlier, with the times that were noted then.
fn times() {
    let began_ns = clock::now_ns();
    std::thread::sleep(Duration::from_millis(1));
    let ended_ns = clock::now_ns();
    span!("events", "measured before", at: began_ns).end_at(ended_ns);
    for (number, value) in [3, 7, 5].into_iter().enumerate() {
        counter!("events", "queue length", value, at: began_ns + number as u64 * 300_000);
    }
}
