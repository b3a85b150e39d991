//! Schemas of fields on events are declared once, and each trace that starts later carries them once.

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
fn traces_of_events_carry_the_schema_of_their_fields_from_its_declaration_on() -> Result<(), Error>
{
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

/// Of a session that records events alone.
fn trace_of_an_event() -> Result<Verdict, Error> {
    let session = TraceConfig::new()
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
