//! A code generator for build scripts: it makes protozero writers and decoders from `.proto` files.
//!
//! The crate contains its own schema compiler, so `protoc` is not needed. Write a `build.rs` like
//! this:
//!
//! ```no_run
//! fn main() -> Result<(), protozero_codegen::Error> {
//!     protozero_codegen::Config::new().include("protos").compile(&["protos/gpu.proto"])
//! }
//! ```
//!
//! In the program, include the code of a protobuf package by its name:
//!
//! ```ignore
//! protozero::include_protos!("gpu");
//! ```
//!
//! The page [`generated_api`] shows what the generator makes of each part of a schema, with a
//! complete example. The page [`vm_programs`] shows how to write programs that fold patches of
//! a data source into a state.
#![forbid(unsafe_code)]

// In the order of processing: files, descriptors, model, source text.
mod config; // the public configuration, and writing of the files
mod front_end; // parses `.proto` files into descriptors
mod source; // a scanner for imports, positions and comments, which the parser does not return
mod descriptor_set; // reads descriptors that another compiler has made
mod extension_numbers; // checks the field numbers of extensions
mod comments; // the comments of a schema, by declaration
mod resolve; // turns descriptors into the model
mod registry; // all declared types, and their Rust names
mod names; // letter case, keywords, collisions
mod extern_path; // types that another crate has generated
mod owned; // structs of messages, on request
mod vm; // ProtoVM programs, on request
mod schema; // the model: the input of the emitter
mod emit; // turns the model into Rust source
mod embedded; // schemas as data for the program, on request
mod error; // errors, with place and remedy

pub use config::{Config, GeneratedFile};
pub use error::{Error, Location};
pub use vm::{OnError, VmProgram};

#[doc = include_str!("generated_api.md")]
pub mod generated_api {}

#[doc = include_str!("vm_programs.md")]
pub mod vm_programs {}
