//! Generates protozero writers and decoders from `.proto` files, for build scripts.
//!
//! The schema compiler is part of the crate: there is no `protoc` to install. A `build.rs` is
//!
//! ```no_run
//! fn main() -> Result<(), protozero_codegen::Error> {
//!     protozero_codegen::Config::new().include("protos").compile(&["protos/gpu.proto"])
//! }
//! ```
//!
//! and the program includes the code of a package by its name:
//!
//! ```ignore
//! protozero::include_protos!("gpu");
//! ```
#![forbid(unsafe_code)]

// In the order of the work: files, descriptors, model, source text.
mod config; // what a build script says, and writing the files
mod front_end; // files to descriptors
mod source; // imports, positions and comments, which the parser does not tell
mod descriptor_set; // descriptors that another compiler has made
mod extension_numbers; // which numbers extensions may have
mod comments; // what a schema says of its declarations
mod resolve; // descriptors to model
mod registry; // all declared types, and their Rust names
mod names; // cases, keywords, collisions
mod extern_path; // types that somebody else has generated
mod owned; // messages that become structs, on request
mod schema; // the model, all that the emitter sees
mod emit; // the model as Rust source
mod embedded; // descriptors for the program to carry, on request
mod error; // what can be wrong, where, and what to do

pub use config::{Config, GeneratedFile};
pub use error::{Error, Location};
