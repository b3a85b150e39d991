//! Writers and decoders of the packets that this SDK writes, generated from the files of `tracezero-schema`.
//!
//! Field names and numbers are the published ones, so any tool that opens Perfetto traces reads
//! the result.
//!
//! The generated code is checked in: who depends on this SDK builds no generator.
//! `tests/generated_schema.rs` compares the code with what the generator makes.

include!("perfetto.protos.rs");

/// This SDK's own extension of the packet that carries a trace's statistics: what became of every
/// packet, by sequence.
pub mod sequences {
    include!("tracezero.sequences.rs");
}

/// The records of files with states, which a recovery reads.
pub mod states {
    include!("tracezero.states.rs");
}
