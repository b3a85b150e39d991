//! A trace that contains the schema of its data source can be read without the `.proto` file.

use judge::{ExtraSchema, judge};
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::TracePacket;
use protobuf::descriptor::FileDescriptorSet;
use protobuf::reflect::FileDescriptor;
use protobuf::{Message, UnknownValueRef};
use support::alone;
use tracezero::protos::track_event::Type;
use tracezero::{DataSource as _, Error, InMemorySession, data_source};

use self::schema::TrackEventExt as _;

mod schema {
    protozero::include_protos!("memory");
}

/// The number of the field `memory_sample` of a track event.
const MEMORY_SAMPLE: u32 = 9910;

struct Samples;
data_source!(
    Samples,
    "com.example.samples",
    protozero::include_descriptor_set!("memory")
);

fn trace_with_a_sample() -> Result<Vec<u8>, Error> {
    let _guard = alone();
    let session = InMemorySession::start()?;
    Samples::trace(|cx| {
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.track_event(|event| {
                event.set_type(Type::INSTANT);
                event.set_name("sample");
                event.memory_sample(|sample| {
                    sample.set_virtual_kb(4096).set_resident_kb(1234);
                });
            });
        });
    });
    Ok(session.finish().0)
}

#[test]
fn a_field_that_only_the_trace_describes_is_readable() -> Result<(), Error> {
    let bytes = trace_with_a_sample()?;
    let trace = Trace::parse_from_bytes(&bytes).expect("a trace");
    let described = trace
        .packet
        .iter()
        .position(TracePacket::has_extension_descriptor);
    let event = trace.packet.iter().position(TracePacket::has_track_event);
    let (described, event) = (described.expect("a schema"), event.expect("an event"));
    assert!(described < event);

    let set = &trace.packet[described].extension_descriptor().extension_set;
    let set = set.write_to_bytes().expect("nothing is required");
    let mut set = FileDescriptorSet::parse_from_bytes(&set).expect("the same in another package");
    let mut file = set.file.pop().expect("the file of the schema");
    assert_eq!(set.file, [], "the SDK's own schema is not part of it");
    let extension = file.extension.pop().expect("the field of track events");
    assert_eq!(extension.extendee(), ".perfetto.protos.TrackEvent");
    assert_eq!(extension.number(), MEMORY_SAMPLE as i32);

    // Removes the imports, because the message needs no other file.
    file.dependency.clear();
    let file = FileDescriptor::new_dynamic(file, &[]).expect("a complete schema");
    let message = file
        .message_by_full_name(extension.type_name())
        .expect("the type of the field");
    let fields = trace.packet[event]
        .track_event()
        .special_fields
        .unknown_fields();
    let Some(UnknownValueRef::LengthDelimited(sample)) = fields.get(MEMORY_SAMPLE) else {
        panic!("no sample in {fields:?}");
    };
    let sample = message.parse_from_bytes(sample).expect("a sample");
    assert_eq!(sample.to_string(), "virtual_kb: 4096 resident_kb: 1234");
    Ok(())
}

#[test]
fn a_trace_with_a_schema_is_valid() -> Result<(), Error> {
    let extra = ExtraSchema::new().extensions("../../examples/protos/memory.proto");
    let verdict = judge(&trace_with_a_sample()?, &extra).expect("a valid trace");
    assert_eq!(verdict.events_named("sample").count(), 1);
    Ok(())
}
