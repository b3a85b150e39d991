//! Futures as spans: each future is a slice from its first poll to its end, and a slice on a thread
//! for each poll. The runtime moves the futures between threads, and one is cancelled.
//!
//! `cargo run --example futures` writes `futures.pftrace`.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracezero::{Session, TraceFuture as _, async_span, end, span, trace};

const PAGES: [&str; 4] = ["/", "/news", "/slow", "/about"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = Session::record_to_file("futures.pftrace")?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    let words = runtime.block_on(crawl());
    println!("{words} words");
    println!("{}", session.finish()?);
    Ok(())
}

/// The slices of the futures that `crawl` awaits or spawns are drawn below the slice of `crawl`.
#[trace("crawler")]
async fn crawl() -> usize {
    let mut fetches = JoinSet::new();
    for path in PAGES {
        // The name is made at run time. The arguments are recorded here, so the future need not
        // keep them.
        let span = async_span!("crawler", format!("fetch {path}"), path);
        let page = fetch(path).traced(span);
        let page = page.end_with(|page, span| end!(span, bytes = page.len()));
        fetches.spawn(timeout(Duration::from_millis(20), page));
    }
    let pages = fetches.join_all().await;
    // The timeout dropped the slow futures; their slices have the argument `cancelled`.
    let in_time = pages.into_iter().filter_map(Result::ok);
    in_time.map(|page| count_words(&page)).sum()
}

async fn fetch(path: &str) -> String {
    connect().await;
    let chunks = if path == "/slow" { 100 } else { 3 };
    let mut page = String::new();
    for number in 0..chunks {
        read_chunk(path, number, &mut page).await;
    }
    page
}

#[trace("net")]
async fn connect() {
    sleep(Duration::from_millis(2)).await;
}

#[trace("net", args(number))]
async fn read_chunk(path: &str, number: u32, page: &mut String) {
    sleep(Duration::from_millis(1)).await;
    // The guard of a plain span cannot be held across an await. This slice lies inside the slice of
    // the poll.
    let _span = span!("net", "decode", bytes = path.len());
    page.push_str(path);
    page.push(' ');
}

#[trace("crawler", args(bytes = page.len()))]
fn count_words(page: &str) -> usize {
    page.split_whitespace().count()
}
