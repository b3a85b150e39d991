//! The SDK's schema as data: the names of the fields that `cat` prints.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where the SDK keeps its schema; its build script says so.
    let root = std::env::var("DEP_TRACEZERO_CORE_PROTOS")?;
    let extensions = Path::new(&root).join("protos/tracezero/sequences.proto");
    // What it imports is all of the schema.
    protozero_codegen::Config::new()
        .include(&root)
        .descriptor_sets()
        .compile(&[extensions])?;
    Ok(())
}
