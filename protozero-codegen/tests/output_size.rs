//! Tests of the amount of generated code, because compile time depends on it: the work of rustc is
//! proportional to the number of functions and impls. Functions become machine code only if called.

use protozero_codegen::Config;
use support::Folder;

/// Generates the code for `messages` messages of ten fields: scalars, and a few nested and repeated
/// fields.
fn generated(messages: usize) -> String {
    const TYPES: [&str; 10] = [
        "int32", "int64", "uint32", "uint64", "sint32", "bool", "fixed64", "double", "string",
        "bytes",
    ];
    let mut schema =
        "syntax = \"proto3\";\npackage size;\nenum Enum { ZERO = 0; ONE = 1; }\n".to_owned();
    for message in 0..messages {
        schema += &format!("message Message{message} {{\n");
        for field in 0..10 {
            let other = (message * 7 + field) % messages;
            let field_type = match (message + field) % 13 {
                10 => format!("Message{other}"),
                11 => format!("repeated Message{other}"),
                12 => "repeated uint32".to_owned(),
                scalar => TYPES[scalar].to_owned(),
            };
            schema += &format!("{field_type} field_{field} = {};\n", field + 1);
        }
        schema.push_str("}\n");
    }
    let folder = Folder::empty();
    let file = folder.write("many.proto", schema);
    let files = Config::new()
        .include(&folder)
        .generate(&[file])
        .expect("the schema compiles");
    files[0].source.clone()
}

#[test]
fn functions_and_impls_of_ten_fields_are_bounded() {
    let source = generated(130);
    // Two functions for each field, a third if it is nested or packed, and five for every message.
    let functions = source.matches("fn ").count();
    assert!(functions <= 130 * 28 + 5, "{functions} functions");
    // Impls: the writer, its trait, the decoder, and four derived impls.
    let impls = source.matches("\nimpl").count()
        + source.matches("derive(Debug)").count()
        + 3 * source.matches("derive(Clone, Copy, Debug)").count();
    assert!(impls <= 130 * 7 + 13, "{impls} impls");
    assert!(source.len() <= 130 * 9_000, "{} bytes", source.len());
}

#[test]
fn every_function_is_inline() {
    let source = generated(13);
    let functions = source.matches("fn ").count();
    assert_eq!(source.matches("#[inline]").count(), functions);
}

#[test]
fn code_grows_no_faster_than_the_schema() {
    let (once, twice) = (generated(130).len(), generated(260).len());
    // Longer numbers in the names add a few bytes.
    assert!(twice * 100 <= once * 2 * 102, "{once} and {twice} bytes");
}
