//! Tests of ProtoVM programs (`Config::vm_program`).

mod decoded; // constants of generated code, and their bytes as text
mod errors; // each error, by its exact text
mod shapes; // the instructions of each command
mod winscope; // a schema of extensions in several files
mod page; // the example of the documentation
