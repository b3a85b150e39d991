//! Generates the writers and decoders of the examples' own schemas.

fn main() -> Result<(), protozero_codegen::Error> {
    protozero_codegen::Config::new()
        .include("examples/protos")
        .include("sdk")
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .compile(&[
            "examples/protos/bench.proto",
            "examples/protos/index_tree.proto",
            "examples/protos/render.proto",
            "examples/protos/weather.proto",
        ])
}
