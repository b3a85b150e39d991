//! Tracing SDK in pure Rust.

pub mod commit;
pub mod ids;
pub mod producer;
pub mod service;
pub mod shm;
