//! The attribute `trace`, which makes a function a span: plain functions, methods, and async
//! functions, whose spans include their awaits and show their polls.
//!
//! `cargo run --example trace_attribute`, then open `trace_attribute.pftrace` at
//! <https://ui.perfetto.dev>.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tracezero::{Session, trace};

struct Store {
    folder: &'static str,
}

impl Store {
    /// Ends its span on every return path, with the length of the text as `result`, or with the
    /// error. Arguments keep their types, and are not evaluated while no session records.
    #[trace("io", name = "Store::read", args(folder = self.folder, path), result = result.len(), %error)]
    fn read(&self, path: &str) -> io::Result<String> {
        thread::sleep(Duration::from_millis(1));
        if path.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(format!("{}/{path}", self.folder))
    }
}

/// By default, the category is the name of the package, and the name of the span is that of the
/// function.
#[trace(result)]
fn read_all(store: &Store) -> usize {
    let paths = ["a", "", "b"];
    paths
        .iter()
        .filter_map(|path| store.read(path).ok())
        .count()
}

/// Records each call on a track of its own, because the two calls below overlap on one thread.
#[trace("net", args(?host, timeout_ms = timeout.as_millis() as u64), result)]
async fn fetch(host: &str, timeout: Duration) -> usize {
    let end = Instant::now() + timeout;
    std::future::poll_fn(|_| {
        if Instant::now() < end {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    host.len()
}

fn main() -> Result<(), tracezero::Error> {
    let session = Session::record_to_file("trace_attribute.pftrace")?;
    println!("{} files", read_all(&Store { folder: "src" }));
    let short = fetch("example.com", Duration::from_millis(2));
    let long = fetch("example.org", Duration::from_millis(4));
    println!("{} bytes", run_both(short, long));
    println!("{}", session.finish()?);
    Ok(())
}

/// Runs two futures, polling without sleeping. Returns the sum of their results.
fn run_both(first: impl Future<Output = usize>, second: impl Future<Output = usize>) -> usize {
    let context = &mut Context::from_waker(Waker::noop());
    let mut futures: [Option<Pin<&mut dyn Future<Output = usize>>>; 2] =
        [Some(pin!(first)), Some(pin!(second))];
    let mut sum = 0;
    while futures.iter().any(Option::is_some) {
        for slot in &mut futures {
            if let Some(future) = slot
                && let Poll::Ready(result) = future.as_mut().poll(context)
            {
                sum += result;
                *slot = None;
            }
        }
    }
    sum
}
