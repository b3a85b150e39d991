//! A schema for fields on events is declared once. Each trace that starts later contains it once.

use judge::{ExtraSchema, Verdict, judge};
use perfetto_protos::descriptor::FileDescriptorProto;
use perfetto_protos::trace_packet::TracePacket;
use tracezero::{
    BufferConfig, DataSourceConfig, Error, TraceConfig, declare_event_schema, instant,
};

use self::schema::TrackEventExt as _;

mod schema {
    protozero::include_protos!("http");
}

#[test]
fn traces_contain_event_schema_once_it_is_declared() -> Result<(), Error> {
    let before = trace_of_an_event()?;
    for _ in 0..3 {
        declare_event_schema(protozero::include_descriptor_set!("http"));
    }
    let after = [trace_of_an_event()?, trace_of_an_event()?];
    assert_eq!(schemas(&before), [""; 0]);
    for trace in after {
        assert_eq!(schemas(&trace), ["http.proto"]);
    }
    Ok(())
}

/// Records one event in a session without other data sources.
fn trace_of_an_event() -> Result<Verdict, Error> {
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .add_data_source(DataSourceConfig::new("track_event"))
        .record_in_memory()?;
    instant!("http", "request", fields: |event| {
        event.http_request(|request| {
            request.set_status(200);
        });
    });
    let extra = ExtraSchema::new().extensions("../../examples/protos/http.proto");
    Ok(judge(&session.finish().0, &extra).expect("a valid trace"))
}

fn schemas(verdict: &Verdict) -> Vec<&str> {
    let packets = verdict.packets.iter();
    packets
        .filter(|packet| packet.has_extension_descriptor())
        .map(TracePacket::extension_descriptor)
        .flat_map(|descriptor| &descriptor.extension_set.file)
        .map(FileDescriptorProto::name)
        .collect()
}
