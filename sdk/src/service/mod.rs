//! The service: takes commits, owns the central buffers, writes traces.

pub mod trace_buffer;
