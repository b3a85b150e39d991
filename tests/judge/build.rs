//! Generates the packet writers for the schema that the tests record with, and reads the configurations
//! of Perfetto's stress test.

fn main() -> Result<(), protozero_codegen::Error> {
    protozero_codegen::Config::new()
        .include("../../examples/protos")
        .include("../../sdk/schema")
        .include("protos")
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .descriptor_sets()
        .owned(".stress.StressTestConfig")
        .compile(&[
            "../../examples/protos/http.proto",
            "../../examples/protos/memory.proto",
            "../../examples/protos/render.proto",
            "protos/stress.proto",
        ])
}
