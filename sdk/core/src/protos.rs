//! Writers and decoders of the packets that this SDK writes, generated from `protos/`.
//!
//! Field names and numbers are the published ones, so any tool that opens Perfetto traces reads
//! the result.

protozero::include_protos!("perfetto.protos");

/// This SDK's own extension of the packet that carries a trace's statistics: what became of every
/// packet, by sequence.
pub mod sequences {
    protozero::include_protos!("tracezero.sequences");
}
