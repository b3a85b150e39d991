//! The whole published schema of Perfetto.

use schemas::{DeclarationCounts, Schema};

mod generated {
    include!(concat!(env!("OUT_DIR"), "/perfetto/drivers.rs"));
}

fn schema() -> Schema {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/perfetto/descriptors.bin"));
    Schema::new(descriptors, generated::DRIVERS, generated::ENUMS)
}

#[test]
fn every_message_type_and_enum_has_its_code() {
    schema().nothing_is_left_out();
}

#[test]
fn library_reads_what_generated_writers_write() {
    schema().library_reads_what_we_write();
}

#[test]
fn generated_decoders_read_what_the_library_writes() {
    schema().we_read_what_the_library_writes();
}

#[test]
fn packed_and_unpacked_elements_are_read_in_any_mixture() {
    schema().packed_and_unpacked_elements_mix();
}

#[test]
fn last_member_of_a_oneof_counts() {
    schema().last_member_of_a_oneof_counts();
}

#[test]
fn enums_have_the_values_of_the_schema() {
    schema().enums_have_their_values();
}

#[test]
fn schema_is_all_there() {
    let declared = DeclarationCounts {
        files: 392,
        messages: 1_611,
        fields: 8_388,
        extensions: 112,
        custom_options: 5,
        packable_fields: 156,
        oneof_members: 884,
        enums: 236,
        enum_values: 3_355,
    };
    assert_eq!(schema().declared(), declared);
}
