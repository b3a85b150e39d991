//! What compiles without a warning, and what the compiler says to misuse. Each file in
//! `compile_pass/` and `compile_fail/` is one case.
//!
//! After a change of compiler or interface, `TRYBUILD=overwrite cargo test --test compile` writes the
//! messages anew; look at the difference.

#[test]
fn use_compiles_under_strict_lints_and_misuse_is_a_compile_error() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_pass/*.rs");
    cases.compile_fail("tests/compile_fail/*.rs");
}
