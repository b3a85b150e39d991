//! Generates the writers of the SDK's own schema, as any user of the generator would.

fn main() -> Result<(), protozero_codegen::Error> {
    // For schemas that extend `TracePacket`: dependents see this as `DEP_TRACEZERO_PROTOS`.
    let include = concat!(env!("CARGO_MANIFEST_DIR"));
    println!("cargo::metadata=protos={include}");
    protozero_codegen::Config::new()
        .include(".")
        .compile(&["protos/perfetto/trace/trace.proto"])
}
