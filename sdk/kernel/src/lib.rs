//! What the recorder (`tracezero-probes`) and the reader (`tracezero-reader`) of the kernel's half of a
//! trace share: its packets, and the names of system calls.
//!
//! The messages are parts of Perfetto's published ones, with the published names and numbers. The
//! package `tracezero` does not have them, so that programs that record no kernel do not build them.

/// Writers and decoders of the packets, and of the configurations of the data sources.
///
/// The generated code is checked in. `tests/generated_schema.rs` compares it with what the generator
/// makes.
pub mod protos {
    include!("tracezero.kernel.rs");

    pub use perfetto::protos::*;
}

pub mod syscalls; // the names of system calls
