//! Generates the writers and decoders of the messages that the benchmarks use.

use protozero_codegen::{Config, VmProgram};

fn main() -> Result<(), protozero_codegen::Error> {
    Config::new()
        .include("protos")
        .compile(&["protos/bench.proto"])?;
    let (patch, table) = (
        "[connections.connection_patch]",
        "[connections.connection_table]",
    );
    let table_program = VmProgram::new("perfetto.protos.TracePacket")
        .scope(patch, table, |table| {
            table.merge_by_key("changed", "connections", "id")
        })
        .set("timestamp", "timestamp");
    Config::new()
        .include("../examples/protos")
        .include(tracezero_schema::INCLUDE_DIR)
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .descriptor_sets()
        .vm_program("connections.TABLE_PROGRAM", table_program)
        .compile(&["../examples/protos/connections.proto"])
}
