//! How to declare categories, choose them by a configuration, and change the choice while a session
//! records.
//!
//! `cargo run --example categories` prints how many events each phase records.

use std::error::Error;

use tracezero::{
    BufferConfig, DataSourceConfig, InMemorySession, TraceConfig, TrackEventConfig, categories,
    counter, enabled, instant, service_state, span,
};

fn main() -> Result<(), Box<dyn Error>> {
    // Declaring categories is optional. Declared categories appear in lists of categories, and a
    // configuration can choose several of them at once by a tag.
    categories! {
        "server": "Requests, from their arrival to the answer";
        "cache": "Hits and misses";
        "cache.scan": "Every entry that is looked at" tags ["slow"];
    }

    // An empty configuration records all categories except those with the tag `slow` or `debug`.
    let mut session = start(&TrackEventConfig::new())?;
    list_categories();
    serve(100);
    println!("by default: {} events", session.finish().1.events);

    // Records the category `server` only: of all patterns that match, the most specific one
    // decides.
    session = start(&TrackEventConfig::new().disable("*").enable("server"))?;
    serve(100);
    println!("server alone: {} events", session.finish().1.events);

    // Records more categories for a while; the session goes on.
    let usual = TrackEventConfig::new().disable("cache*");
    let closer = TrackEventConfig::new().enable_tag("slow");
    session = start(&usual)?;
    serve(100);
    session.control().choose_categories(&closer)?;
    serve(10);
    session.control().choose_categories(&usual)?;
    serve(100);
    println!("with a closer look: {} events", session.finish().1.events);
    Ok(())
}

fn start(events: &TrackEventConfig) -> Result<InMemorySession, tracezero::Error> {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024)) // KiB
        .add_data_source(DataSourceConfig::new("track_event").track_event(events))
        .record_in_memory()
}

fn list_categories() {
    let state = service_state();
    let data_sources = state.producers.iter().flat_map(|it| &it.data_sources);
    for category in data_sources.flat_map(|data_source| &data_source.categories) {
        println!(
            "{:12}{} {:?}",
            category.name, category.description, category.tags
        );
    }
}

/// Pretends to answer requests.
fn serve(requests: u64) {
    for request in 0..requests {
        let _span = span!("server", "request", number = request);
        if request % 5 == 0 {
            instant!("cache", "miss", key = request);
        }
        // If no session records this category, skips work that serves only the trace.
        if enabled!("cache.scan") {
            for entry in 0..3 {
                instant!("cache.scan", "entry", number = entry);
            }
            counter!("cache.scan", "size_bytes", (0..request).sum::<u64>());
        }
    }
}
