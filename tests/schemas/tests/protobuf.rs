//! Schemas of the protobuf project: the messages of its conformance tests, and collections of names
//! that are awkward in some language. Groups are cut out before the generator runs.

use std::fs;
use std::path::Path;

use protozero_codegen::Config;
use schemas::{DeclarationCounts, Schema};

mod generated {
    include!(concat!(env!("OUT_DIR"), "/protobuf/drivers.rs"));
}

fn schema() -> Schema {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/protobuf/descriptors.bin"));
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
        files: 25,
        messages: 220,
        fields: 595,
        extensions: 5,
        custom_options: 0,
        packable_fields: 93,
        oneof_members: 54,
        enums: 179,
        enum_values: 221,
    };
    assert_eq!(schema().declared(), declared);
}

/// Returns the folder of the files as published, with groups.
fn published() -> &'static Path {
    Path::new(concat!(env!("PROTOBUF_SRC"), "/protobuf/src"))
}

const PROTO2: &str = "google/protobuf/test_messages_proto2.proto";

#[test]
fn published_file_is_refused_at_its_first_group() {
    let file = published().join(PROTO2);
    let error = Config::new()
        .include(published())
        .generate(&[&file])
        .expect_err("groups are refused");
    let place = format!("{}:171:18", file.display());
    let remedy = "make `Data` a nested message with a field of its type";
    assert_eq!(
        error.to_string(),
        format!("{place}: groups are not supported; {remedy}")
    );
}

#[test]
fn nothing_but_groups_is_cut_out() {
    let without = Path::new(env!("OUT_DIR")).join("protobuf/without_groups");
    let read = |folder: &Path| fs::read_to_string(folder.join(PROTO2)).expect("a readable file");
    let (published, kept) = (read(published()), read(&without));
    assert_eq!(published.lines().count(), kept.lines().count());
    let cut: Vec<&str> = published
        .lines()
        .zip(kept.lines())
        .filter(|(published, kept)| published != kept)
        .map(|(published, _)| published.trim())
        .collect();
    let groups: Vec<&str> = cut
        .iter()
        .filter_map(|line| line.split_once(" group ")?.1.split(' ').next())
        .collect();
    let expected = [
        "Data",
        "MultiWordGroupField",
        "GroupField",
        "OptionalGroup",
        "Data",
    ];
    assert_eq!(groups, expected);
    let lines_of_groups = [4, 4, 4, 3, 4];
    assert_eq!(cut.len(), lines_of_groups.iter().sum::<usize>(), "{cut:#?}");
}
