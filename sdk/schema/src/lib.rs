//! The schema of traces, for build scripts whose schema imports it.
//!
//! The package holds `.proto` files: Perfetto's under `protos/perfetto/`, as far as tracezero writes or
//! reads them, and tracezero's own extension under `protos/tracezero/`. A build script passes the folder to
//! the generator:
//!
//! ```ignore
//! protozero_codegen::Config::new()
//!     .include("protos")
//!     .include(tracezero_schema::INCLUDE_DIR)
//!     .extern_path(".perfetto.protos", "::tracezero::protos")
//!     .compile(&["protos/gpu.proto"])
//! ```
//!
//! The crate `tracezero` has the code that the generator makes of these files.

/// The include path: imports such as `protos/perfetto/trace/trace_packet.proto` are relative to it.
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
