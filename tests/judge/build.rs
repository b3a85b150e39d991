//! Generates the packet writers for the schema that the tests record with.

fn main() -> Result<(), protozero_codegen::Error> {
    protozero_codegen::Config::new()
        .include("../../examples/protos")
        .include("../../sdk/schema")
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .descriptor_sets()
        .compile(&[
            "../../examples/protos/http.proto",
            "../../examples/protos/memory.proto",
            "../../examples/protos/render.proto",
        ])
}
