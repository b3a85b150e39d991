//! The schema of traces, for build scripts that generate code from a schema that extends it.
//!
//! This package holds `.proto` files. Under `protos/perfetto/` are those files of Perfetto that
//! tracezero writes or reads; under `protos/tracezero/` is tracezero's own extension. A build
//! script passes [`INCLUDE_DIR`] to the generator as an include path:
//!
//! ```ignore
//! protozero_codegen::Config::new()
//!     .include("protos")
//!     .include(tracezero_schema::INCLUDE_DIR)
//!     .extern_path(".perfetto.protos", "::tracezero::protos")
//!     .compile(&["protos/gpu.proto"])
//! ```
//!
//! The code that is generated from these files is part of the crate `tracezero`.

/// The include path. Imports such as `protos/perfetto/trace/trace_packet.proto` are relative to it.
pub const INCLUDE_DIR: &str = env!("CARGO_MANIFEST_DIR");

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn imports_are_relative_to_the_include_path() {
        let root = Path::new(super::INCLUDE_DIR);
        assert!(
            root.join("protos/perfetto/trace/trace_packet.proto")
                .is_file()
        );
    }
}
