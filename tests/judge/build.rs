//! Generates the writers of a schema that the tests record packets with.

fn main() -> Result<(), protozero_codegen::Error> {
    protozero_codegen::Config::new()
        .include("../../examples/protos")
        .include("../../sdk")
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .compile(&[
            "../../examples/protos/http.proto",
            "../../examples/protos/render.proto",
        ])
}
