//! The judge's rules for the encoding: bytes, known and unknown fields, extensions.

use judge::{ExtraSchema, Rule, judge};
use perfetto_protos::trace_stats::trace_stats::BufferStats;
use protobuf::EnumOrUnknown;

use crate::traces::{
    BEGIN, CONFIG, INSTANT, TEST_PACKET, accepted, assert_refused, assert_rule, encoded, good_trace,
};

const CUSTOM_PROTO: &str = "protos/custom.proto";

#[test]
fn bytes_that_do_not_decode_are_refused() {
    let mut bytes = encoded(&good_trace());
    bytes.truncate(bytes.len() - 1);
    assert_rule(judge(&bytes, &ExtraSchema::new()), Rule::Decodes);

    let not_a_packet = [0x12, 0];
    assert_rule(judge(&not_a_packet, &ExtraSchema::new()), Rule::Decodes);

    let name_is_not_utf8 = [0x0a, 5, 0x5a, 3, 0xba, 0x01, 1, 0xff];
    assert_rule(judge(&name_is_not_utf8, &ExtraSchema::new()), Rule::Decodes);
}

#[test]
fn compressed_packets_are_refused() {
    let mut packets = good_trace();
    packets[TEST_PACKET].set_compressed_packets(vec![1, 2, 3]);
    assert_refused(&packets, TEST_PACKET, Rule::Decodes);
}

#[test]
fn an_unknown_field_is_refused_however_deep() {
    let mut packets = good_trace();
    packets[TEST_PACKET]
        .special_fields
        .mut_unknown_fields()
        .add_varint(999, 1);
    assert_refused(&packets, TEST_PACKET, Rule::KnownFields);

    let mut packets = good_trace();
    let argument = &mut packets[BEGIN].mut_track_event().debug_annotations[0];
    argument
        .special_fields
        .mut_unknown_fields()
        .add_varint(999, 1);
    assert_refused(&packets, BEGIN, Rule::KnownFields);
}

#[test]
fn a_known_field_of_another_wire_type_is_refused() {
    let mut packets = good_trace();
    packets[TEST_PACKET]
        .special_fields
        .mut_unknown_fields()
        .add_fixed64(8, 1);
    assert_refused(&packets, TEST_PACKET, Rule::KnownFields);
}

#[test]
fn an_unknown_enum_value_is_refused() {
    let mut packets = good_trace();
    packets[INSTANT].mut_track_event().type_ = Some(EnumOrUnknown::from_i32(77));
    assert_refused(&packets, INSTANT, Rule::KnownFields);
}

#[test]
fn fields_that_perfetto_published_later_are_accepted() {
    let mut packets = good_trace();
    let provenance = vec![0x12, 4, 0x0a, 2, 0x08, 2];
    packets[CONFIG]
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(124, provenance);
    let mut stats = BufferStats::new();
    stats.special_fields.mut_unknown_fields().add_varint(20, 3);
    packets
        .last_mut()
        .unwrap()
        .mut_trace_stats()
        .buffer_stats
        .push(stats);
    accepted(&packets);

    let broken_provenance = vec![0x12, 4, 0x0a, 2, 0x18, 2];
    packets[CONFIG]
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(124, broken_provenance);
    assert_refused(&packets, CONFIG, Rule::KnownFields);
}

#[test]
fn declared_extensions_are_decoded() {
    let mut packets = good_trace();
    let sample = vec![0x08, 200, 9, 0x12, 2, 87, 12, 0x1a, 1, b'a'];
    packets[TEST_PACKET]
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(1900, sample);
    let event = packets[INSTANT].mut_track_event();
    event
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(9900, b"GET /".to_vec());
    assert_refused(&packets, TEST_PACKET, Rule::KnownFields);

    let extra = ExtraSchema::new().extensions(CUSTOM_PROTO);
    let verdict = judge(&encoded(&packets), &extra).unwrap();
    let [request, sample] = &verdict.custom[..] else {
        panic!("{:#?}", verdict.custom)
    };
    assert_eq!(request.extended, "perfetto.protos.TrackEvent");
    assert_eq!(
        request.fields.get("request").unwrap().as_str(),
        Some("GET /")
    );
    assert_eq!((sample.packet, sample.sequence_id), (TEST_PACKET, 3));
    assert_eq!(sample.timestamp_ns, Some(3_000_000));
    assert_eq!(
        sample.fields.get("gpu_sample.mhz").unwrap().as_u64(),
        Some(1224)
    );
    assert_eq!(
        sample
            .fields
            .get("gpu_sample.load_percent.1")
            .unwrap()
            .as_u64(),
        Some(12)
    );
    assert_eq!(
        sample.fields.get("gpu_sample.adapter").unwrap().as_str(),
        Some("a")
    );
}

#[test]
fn message_declared_for_a_field_is_decoded_and_checked() {
    let extra = ExtraSchema::new()
        .packet_field(1901, CUSTOM_PROTO, "judge.test.GpuSample")
        .track_event_field(9901, CUSTOM_PROTO, "judge.test.GpuSample");
    let mut packets = good_trace();
    packets[TEST_PACKET]
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(1901, vec![8, 5]);
    let event = packets[INSTANT].mut_track_event();
    event
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(9901, vec![8, 6]);
    let verdict = judge(&encoded(&packets), &extra).unwrap();
    let mhz = verdict
        .custom
        .iter()
        .map(|custom| custom.fields.get("gpu_sample.mhz").unwrap());
    assert_eq!(
        mhz.map(|mhz| mhz.as_u64().unwrap()).collect::<Vec<_>>(),
        [6, 5]
    );

    let unknown_field_inside = vec![0x20, 5];
    let unknown = packets[TEST_PACKET].special_fields.mut_unknown_fields();
    unknown.add_length_delimited(1901, unknown_field_inside);
    let result = judge(&encoded(&packets), &extra);
    assert_rule(result, Rule::KnownFields);
}
