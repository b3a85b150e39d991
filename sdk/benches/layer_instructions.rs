//! Instructions that the `tracing` layer adds to those of `tracing` and its registry; `callgrind` says
//! how they are counted.
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

/// The values that are written; opaque to the compiler.
struct Values {
    number: u32,
    size: u64,
    text: String,
}

#[inline]
fn span_0() {
    let _span = info_span!("span_0").entered();
}

#[inline]
fn span_3(v: &Values) {
    let text = v.text.as_str();
    let _span = info_span!("span_3", v.number, v.size, text).entered();
}

#[inline]
fn event() {
    info!("event");
}

/// The session leaves out this target.
#[inline]
fn disabled_event() {
    info!(target: "off", "event");
}

callgrind::subjects! {
    |_nothing: &mut (), v: &Values|
    // Without the layer.
    registry_span_0: 1000, span_0();
    registry_span_3: 1000, span_3(v);
    // What the layer adds.
    layer_span_0: 2000 - registry_span_0, span_0();
    layer_span_3: 2000 - registry_span_3, span_3(v);
    event: 2000, event();
    disabled_event: 2000, disabled_event();
}

fn main() -> ExitCode {
    let values = black_box(Values {
        number: 7,
        size: 1234,
        text: "sixteen bytes ..".to_owned(),
    });
    callgrind::main(SUBJECTS, |record| {
        let is_without = env::args()
            .nth(1)
            .is_some_and(|it| it.starts_with("registry"));
        let subscribed = if is_without {
            set_global_default(registry())
        } else {
            set_global_default(registry().with(tracezero::layer()))
        };
        subscribed.expect("it is the first");
        let events = TrackEventConfig::new().disable("off");
        let config = TraceConfig::new()
            .buffer(BufferConfig::ring(1024))
            .data_source(DataSourceConfig::new("track_event").track_event(&events));
        let session = config.record_in_memory().expect("a session");
        // What happens once happens before, as does what is found out about call sites.
        for _ in 0..20 {
            span_0();
            span_3(&values);
            event();
            disabled_event();
        }
        record(&mut (), &values);
        drop(session);
    })
}
