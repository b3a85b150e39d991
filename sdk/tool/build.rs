//! Compiles the SDK's schema into data: the names of the fields that `cat` prints.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(tracezero_schema::INCLUDE_DIR);
    let extensions = root.join("protos/tracezero/sequences.proto");
    // The extensions import the rest of the schema.
    protozero_codegen::Config::new()
        .include(root)
        .descriptor_sets()
        .compile(&[extensions])?;
    Ok(())
}
