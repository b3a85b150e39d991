//! Correct uses of the macros compile without a warning; wrong uses produce the expected compiler
//! messages. Each file in `compile_pass/` and `compile_fail/` is one case.
//!
//! After a change of compiler or interface, `TRYBUILD=overwrite cargo test --test compile` rewrites
//! the expected messages. Check the difference.

#[test]
fn uses_pass_strict_lints_and_misuse_is_a_compile_error() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_pass/*.rs");
    cases.compile_fail("tests/compile_fail/*.rs");
}
