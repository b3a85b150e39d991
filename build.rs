//! Generates the writers and decoders of the examples' own schemas.

use protozero_codegen::{OnError, VmProgram};

fn main() -> Result<(), protozero_codegen::Error> {
    protozero_codegen::Config::new()
        .include("examples/protos")
        .include(tracezero_schema::INCLUDE_DIR)
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .owned(".inventory.Item")
        .owned(".station.Settings")
        .descriptor_sets()
        .vm_program("connections.TABLE_PROGRAM", connection_table())
        .compile(&[
            "examples/protos/connections.proto",
            "examples/protos/http.proto",
            "examples/protos/index_tree.proto",
            "examples/protos/inventory.proto",
            "examples/protos/memory.proto",
            "examples/protos/render.proto",
            "examples/protos/station.proto",
            "examples/protos/weather.proto",
        ])
}

/// Returns the program that applies a patch to the table of connections.
fn connection_table() -> VmProgram {
    let (patch, table) = (
        "[connections.connection_patch]",
        "[connections.connection_table]",
    );
    VmProgram::new("perfetto.protos.TracePacket")
        .scope(patch, table, |table| {
            table
                .on_error(OnError::SkipCommand, |table| {
                    table.delete_by_key("closed_ids", "connections", "id")
                })
                .merge_by_key("changed", "connections", "id")
        })
        .set("timestamp", "timestamp")
}
