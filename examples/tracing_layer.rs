//! Spans and events of the crate `tracing`, from synchronous code and from a server whose tasks
//! move between threads.
//!
//! ```sh
//! cargo run --example tracing_layer [FILE]
//! ```

use std::time::Duration;

use tokio::time::sleep;
use tracing::{Instrument as _, info, info_span, instrument, trace, warn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

const REQUESTS: u32 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or_else(|| "tracing_layer.pftrace".to_owned());

    // Installs the layer once, beside any other layers. Sessions may start and end at any time.
    tracing_subscriber::registry()
        .with(tracezero::layer().name_fields(["system"]))
        .init();
    let session = tracezero::Session::record_to_file(path)?;

    start_up();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let requests: Vec<_> = (0..REQUESTS)
            .map(|number| tokio::spawn(handle(number)))
            .collect();
        for request in requests {
            // `handle` cancels a `load` that takes too long; the span of `load` ends at that
            // moment.
            let _ = request.await;
        }
    });

    println!("{}", session.finish()?);
    Ok(())
}

/// A span that is entered once is a slice on its thread.
#[instrument]
fn start_up() {
    for system in ["database", "cache"] {
        let _span = info_span!("start", system).entered();
        std::thread::sleep(Duration::from_millis(1));
    }
    info!(systems = 2, "started");
}

/// A span that is entered several times is a slice on a track of its own, and another slice on a
/// thread each time it is entered. The track of `load` lies below the track of `handle`.
#[instrument]
async fn handle(number: u32) {
    // A field whose name begins with `counter.` is a value of a counter track.
    trace!(counter.requests = number);
    let limit = Duration::from_millis(8);
    if tokio::time::timeout(limit, load(number)).await.is_err() {
        warn!(number, "took too long");
    }
    let answer = info_span!("answer", bytes = tracing::field::Empty);
    async {
        sleep(Duration::from_millis(1)).await;
        tracing::Span::current().record("bytes", 17 * number);
    }
    .instrument(answer)
    .await;
}

#[instrument]
async fn load(number: u32) {
    for _block in 0..number {
        sleep(Duration::from_millis(2)).await;
    }
}
