//! The command `tracezero record`: what it leaves of programs, however they end.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod program; // the programs that are recorded
mod recording; // starts the command, and judges what it leaves
mod contents; // what the traces have
mod full_speed; // many programs at once
mod endings; // a table of endings
mod kernel; // the kernel's half
