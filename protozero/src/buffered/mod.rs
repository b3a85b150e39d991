//! A root message together with its memory.

#[cfg(feature = "alloc")]
mod heap; // memory that grows
mod fixed; // a slice of the caller
mod null; // no memory

pub use fixed::{OverflowError, StaticBuffered};
#[cfg(feature = "alloc")]
pub use heap::HeapBuffered;
pub use null::NullBuffered;
