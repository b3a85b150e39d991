//! Typed fields on events, with a schema of your own: `protos/http.proto` extends `TrackEvent`.
//!
//! `cargo run --example event_fields` writes `event_fields.pftrace`.

use tracezero::{Session, span};

use self::http::TrackEventExt as _; // adds `http_request` to an event

mod http {
    protozero::include_protos!("http");
}

fn main() -> Result<(), tracezero::Error> {
    // Puts the schema into the trace, so viewers show the fields as arguments of the events.
    tracezero::declare_event_schema(protozero::include_descriptor_set!("http"));
    let session = Session::record_to_file("event_fields.pftrace")?;
    for (path, status) in [("/", 200), ("/index.html", 200), ("/missing", 404)] {
        // An event can have arguments as well as fields.
        let _request = span!("http", "request", path, fields: |event| {
            event.http_request(|request| {
                request.set_method("GET").set_status(status);
                request.add_header_names("accept");
                request.add_header_names("user-agent");
            });
        });
        std::thread::sleep(std::time::Duration::from_micros(300));
    }
    println!("{}", session.finish()?);
    Ok(())
}
