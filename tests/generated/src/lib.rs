//! Code that the build script generates of the generator's fixtures, one file for each in `OUT_DIR`. The tests
//! include it as a user's crate would.
