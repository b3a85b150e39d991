//! A session whose configuration is a text: `text_config.txtpb` beside this file, or a file of
//! yours.
//!
//! `cargo run --example text_config [FILE]` writes `text_config.pftrace`. Errors in the text are
//! reported with line and column.

use std::error::Error;

use tracezero::{DataSource as _, TraceConfig, data_source, span};

struct Samples;
data_source!(Samples, "com.example.samples");

fn main() -> Result<(), Box<dyn Error>> {
    let text = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => include_str!("text_config.txtpb").to_owned(),
    };
    let session = TraceConfig::from_text(&text)?.record_in_memory()?;

    for round in 0..10 {
        let _span = span!("app", "round", number = round);
        for number in 0..10_000 {
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
    }

    let (trace, report) = session.finish();
    std::fs::write("text_config.pftrace", trace)?;
    println!("{report}"); // all spans are there, and the newest samples
    Ok(())
}
