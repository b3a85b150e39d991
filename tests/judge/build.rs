//! Generates the packet writers for the schema that the tests record with, and reads the configurations
//! of Perfetto's stress test.

use protozero_codegen::{OnError, VmProgram};

fn main() -> Result<(), protozero_codegen::Error> {
    let program = VmProgram::new("perfetto.protos.TracePacket").scope(
        "[connections.connection_patch]",
        "[connections.connection_table]",
        |table| {
            table
                .on_error(OnError::SkipCommand, |table| {
                    table.delete_by_key("closed_ids", "connections", "id")
                })
                .merge_by_key("changed", "connections", "id")
        },
    );
    protozero_codegen::Config::new()
        .include("../../examples/protos")
        .include("../../sdk/schema")
        .include("protos")
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .descriptor_sets()
        .owned(".stress.StressTestConfig")
        .vm_program("connections.TABLE_PROGRAM", program)
        .compile(&[
            "../../examples/protos/connections.proto",
            "../../examples/protos/http.proto",
            "../../examples/protos/memory.proto",
            "../../examples/protos/render.proto",
            "protos/stress.proto",
        ])
}
