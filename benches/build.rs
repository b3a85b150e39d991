//! Generates the writer and the decoder of the message that the benchmarks encode and decode.

fn main() -> Result<(), protozero_codegen::Error> {
    protozero_codegen::Config::new()
        .include("protos")
        .compile(&["protos/bench.proto"])
}
