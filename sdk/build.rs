//! Generates the writers of the SDK's own schema, as any user of the generator would.

fn main() -> Result<(), protozero_codegen::Error> {
    // The include path for schemas that extend ours: dependents see it as `DEP_TRACEZERO_PROTOS`.
    println!("cargo::metadata=protos={}", env!("CARGO_MANIFEST_DIR"));
    protozero_codegen::Config::new()
        .include(".")
        .compile(&["protos/perfetto/trace/trace.proto"])
}
