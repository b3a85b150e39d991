//! Generates the writers and decoders of the examples' own schemas.

fn main() -> Result<(), protozero_codegen::Error> {
    protozero_codegen::Config::new()
        .include("examples/protos")
        .include(tracezero_schema::INCLUDE_DIR)
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .owned(".inventory.Item")
        .owned(".station.Settings")
        .descriptor_sets()
        .compile(&[
            "examples/protos/http.proto",
            "examples/protos/index_tree.proto",
            "examples/protos/inventory.proto",
            "examples/protos/memory.proto",
            "examples/protos/render.proto",
            "examples/protos/station.proto",
            "examples/protos/weather.proto",
        ])
}
