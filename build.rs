//! Generates the writers of this package's own schemas, as any user of the generator would.

use std::error::Error;
use std::fs;
use std::io;

const SCHEMAS: &str = "examples/protos";

fn main() -> Result<(), Box<dyn Error>> {
    let schemas: io::Result<Vec<_>> = fs::read_dir(SCHEMAS)?
        .map(|entry| Ok(entry?.path()))
        .collect();
    println!("cargo::rerun-if-changed={SCHEMAS}");
    protozero_codegen::Config::new()
        .include(SCHEMAS)
        .include("sdk")
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .compile(&schemas?)?;
    Ok(())
}
