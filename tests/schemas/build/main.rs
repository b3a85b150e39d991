//! Generates code from published schemas, and drivers that call all of it for every message type.
//!
//! The schemas are parsed twice: by the generator, and by a foreign parser, whose descriptors say
//! what the code must contain.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use prost_reflect::DescriptorPool;
use protozero_codegen::Config;

mod published; // the schemas' files
mod groups; // cuts out groups, which the generator rejects
mod surface; // the methods of the generated code
mod drivers; // code that calls all methods

use published::Schema;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let packages = published::packages()?;
    for schema in [
        published::perfetto(&packages)?,
        published::protobuf(&packages, &out_dir)?,
    ] {
        generate(&schema, &out_dir.join(schema.name))?;
    }
    for (variable, package) in [
        ("PERFETTO_PROTOS", "perfetto_protos"),
        ("PROTOBUF_SRC", "protobuf-src"),
    ] {
        let folder = packages.folder(package)?;
        println!("cargo::rustc-env={variable}={}", folder.display());
    }
    // The schemas are in published versions of packages, whose files never change. So only this
    // script and the list of packages are watched.
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=Cargo.toml");
    Ok(())
}

fn generate(schema: &Schema, out_dir: &Path) -> Result<()> {
    fs::create_dir_all(out_dir)?;
    let mut parser = protox::Compiler::new(&schema.includes)?;
    parser.include_imports(true).open_files(&schema.files)?;
    let descriptors = parser.encode_file_descriptor_set();
    // Decodes the descriptors anew: the parser's own pool is made before it knows which fields are
    // packed.
    let pool = DescriptorPool::decode(descriptors.as_slice())?;
    fs::write(out_dir.join("descriptors.bin"), descriptors)?;

    let names = schema
        .files
        .iter()
        .map(|file| format!("{}\n", file.display()));
    fs::write(out_dir.join("files.txt"), names.collect::<String>())?;

    let config = schema.includes.iter().fold(Config::new(), Config::include);
    let mut units = Vec::new();
    for file in config.generate(&schema.files)? {
        let unit = drivers::Unit {
            package: file.name.trim_end_matches(".rs").to_owned(),
            surface: surface::Surface::read(&file.source)?,
        };
        if !unit.surface.is_empty() {
            fs::write(out_dir.join(&file.name), file.source)?;
            units.push(unit);
        }
    }
    let drivers = drivers::source(schema.name, &pool, units)?;
    fs::write(out_dir.join("drivers.rs"), drivers)?;
    Ok(())
}
