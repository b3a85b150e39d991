//! Generates the writers of the SDK's own schema, as any user of the generator would.
//!
//! The build needs no `protoc`. The repository holds no generated code but the golden files of `protozero-codegen`,
//! so no code can lag behind its schema.

#[cfg(feature = "text-config")]
#[path = "build/text_schema.rs"]
mod text_schema;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The include path for schemas that extend ours: dependents see it as `DEP_TRACEZERO_PROTOS`.
    println!("cargo::metadata=protos={}", env!("CARGO_MANIFEST_DIR"));
    protozero_codegen::Config::new()
        .include(".")
        .compile(&["protos/perfetto/trace/trace.proto"])?;
    protozero_codegen::Config::new()
        .include(".")
        .extern_path(".perfetto.protos", "crate::protos")
        .compile(&["protos/tracezero/sequences.proto"])?;
    #[cfg(feature = "text-config")]
    text_schema::generate()?;
    Ok(())
}
