//! Counts the instructions that the `tracing` layer adds to those of `tracing` and its registry.
//! The module `callgrind` describes how.
//!
//! ```sh
//! cargo bench -p tracezero --bench layer_instructions
//! ```

#[path = "../../protozero/benches/callgrind/mod.rs"]
mod callgrind;

use std::env;
use std::hint::black_box;
use std::process::ExitCode;

use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, TrackEventConfig};
use tracing::subscriber::set_global_default;
use tracing::{info, info_span};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

/// The values that are written; unknown to the compiler.
struct Values {
    number: u32,
    size: u64,
    text: String,
}

/// Declares two equal functions with call sites of their own. Identical code would be merged, and
/// Callgrind could not tell them apart by name.
macro_rules! twice {
    (fn $first:ident, $second:ident($($v:ident: $type:ty)?) $body:block) => {
        #[inline]
        fn $first($($v: $type)?) $body
        #[inline]
        fn $second($($v: $type)?) $body
    };
}

twice! {
    fn registry_0, layer_0() {
        let _span = info_span!("span").entered();
    }
}

twice! {
    fn registry_3, layer_3(v: &Values) {
        let text = v.text.as_str();
        let _span = info_span!("span", v.number, v.size, text).entered();
    }
}

#[inline]
fn event() {
    info!("event");
}

/// An event whose target the session disables.
#[inline]
fn disabled_event() {
    info!(target: "off", "event");
}

callgrind::subjects! {
    |_nothing: &mut (), v: &Values|
    // Spans without the layer.
    registry_span_0: 592, registry_0();
    registry_span_3: 611, registry_3(v);
    // The additional instructions of the layer.
    layer_span_0: 1124 - registry_span_0, layer_0();
    layer_span_3: 1810 - registry_span_3, layer_3(v);
    event: 1012, event();
    disabled_event: 162, disabled_event();
}

fn main() -> ExitCode {
    let values = black_box(Values {
        number: 7,
        size: 1234,
        text: "sixteen bytes ..".to_owned(),
    });
    let subject = env::args().nth(1).unwrap_or_default();
    let subscribed = if subject.starts_with("registry") {
        set_global_default(registry())
    } else {
        set_global_default(registry().with(tracezero::layer()))
    };
    subscribed.expect("it is the first");
    callgrind::main(SUBJECTS, |record| {
        let events = TrackEventConfig::new().disable("off");
        let config = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(1024))
            .add_data_source(DataSourceConfig::new("track_event").track_event(&events));
        let session = config.record_in_memory().expect("a session");
        // Reaches the measured call site first. The layer searches the call sites of a bucket in
        // the order in which it met them, and the linker decides which of them share a bucket.
        match subject.as_str() {
            "layer_span_0" => layer_0(),
            "layer_span_3" => layer_3(&values),
            "event" => event(),
            "disabled_event" => disabled_event(),
            _ => {}
        }
        // Does all one-time work first, for threads and call sites. Then records events until the
        // thread has a long chunk, whose end the measured events do not reach.
        for _ in 0..12 {
            registry_0();
            registry_3(&values);
            layer_0();
            layer_3(&values);
            event();
            disabled_event();
        }
        record(&mut (), &values);
        drop(session);
    })
}
