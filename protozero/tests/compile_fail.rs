//! Tests that misuse does not compile. Each `.rs` file in `compile_fail/` is one misuse; the
//! `.stderr` file beside it is the expected error.
//!
//! After a change of the compiler or the API, `TRYBUILD=overwrite cargo test --test compile_fail`
//! rewrites the expected errors. Review the difference.
#![cfg(feature = "alloc")]

#[test]
fn misuse_is_a_compile_error() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
