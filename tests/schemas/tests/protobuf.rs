//! The conformance schemas of the protobuf project.

use schemas::Schema;

mod generated {
    include!(concat!(env!("OUT_DIR"), "/protobuf/drivers.rs"));
}

fn schema() -> Schema {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/protobuf/descriptors.bin"));
    Schema::new(descriptors, generated::DRIVERS, generated::ENUMS)
}

#[test]
fn every_message_and_enum_has_its_code() {
    schema().nothing_is_left_out();
}

#[test]
fn library_reads_what_generated_writers_write() {
    let coverage = schema().library_reads_what_we_write();
    println!("{coverage:?}");
}

#[test]
fn generated_decoders_read_what_the_library_writes() {
    let coverage = schema().we_read_what_the_library_writes();
    println!("{coverage:?}");
}

#[test]
fn packed_and_unpacked_elements_are_read_in_any_mixture() {
    println!("{}", schema().packed_and_unpacked_elements_mix());
}

#[test]
fn last_member_of_a_oneof_counts() {
    println!("{}", schema().last_member_of_a_oneof_counts());
}

#[test]
fn enums_have_the_values_of_the_schema() {
    println!("{}", schema().enums_have_their_values());
}
