//! Misuse does not compile. Each file in `compile_fail/` is one, with what the compiler says to it.
//!
//! After a change of compiler or interface, `TRYBUILD=overwrite cargo test --test compile_fail`
//! writes the messages anew; look at the difference.
#![cfg(feature = "alloc")]

#[test]
fn misuse_is_a_compile_error() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
