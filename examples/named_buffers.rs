//! Two buffers in one session. Events of the start-up go to a buffer that keeps the first events
//! and rejects the rest. A flood of samples goes to a ring that keeps the newest.
//!
//! `cargo run --example named_buffers` writes `named_buffers.pftrace`.

use std::error::Error;

use tracezero::{
    BufferConfig, DataSource as _, DataSourceConfig, TraceConfig, data_source, instant,
};

struct Samples;
data_source!(Samples, "com.example.samples");

fn main() -> Result<(), Box<dyn Error>> {
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(64).named("start-up")) // KiB
        .add_buffer(BufferConfig::ring(64).named("newest"))
        .add_data_source(DataSourceConfig::new("track_event").target_name("start-up"))
        .add_data_source(DataSourceConfig::new("com.example.samples").target_name("newest"));
    let session = config.record_in_memory()?;

    instant!("app", "configuration_loaded", path = "app.toml");
    for number in 0..100_000 {
        Samples::trace(|cx| {
            let now = cx.now_ns();
            cx.packet(|packet| {
                packet.set_timestamp(now);
                packet.for_testing(|sample| {
                    sample.set_counter(number);
                });
            });
        });
    }

    let (trace, report) = session.finish();
    std::fs::write("named_buffers.pftrace", trace)?;
    println!("{report}"); // most samples were overwritten; the report says how many
    Ok(())
}
