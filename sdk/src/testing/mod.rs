//! Tests on what code traces.

mod recording; // the session of a capture
mod capture; // captures, and the threads that are attached to them

pub use capture::{Attached, Capture, CaptureHandle, CapturedFuture, capture};
