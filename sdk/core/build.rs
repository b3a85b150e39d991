//! Generates the writers of the SDK's own schema, as any user of the generator would.
//!
//! The build needs no `protoc`. The repository holds no generated code but the golden files of `protozero-codegen`,
//! so no code can lag behind its schema.

fn main() -> Result<(), protozero_codegen::Error> {
    // The include path for schemas that extend ours: the build script of `tracezero` hands it on.
    println!("cargo::metadata=protos={}", env!("CARGO_MANIFEST_DIR"));
    protozero_codegen::Config::new()
        .include(".")
        .owned(".perfetto.protos.TraceConfig")
        .compile(&["protos/perfetto/trace/trace.proto"])?;
    protozero_codegen::Config::new()
        .include(".")
        .extern_path(".perfetto.protos", "crate::protos")
        .compile(&["protos/tracezero/sequences.proto"])
}
