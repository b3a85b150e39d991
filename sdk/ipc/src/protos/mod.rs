//! Writers and decoders of frames and messages, generated from the files in `protos/`.
//!
//! The generated code is checked in, as in `tracezero-core`. `tests/generated_schema.rs` compares the
//! code with what the generator makes.

include!("perfetto.protos.rs");
