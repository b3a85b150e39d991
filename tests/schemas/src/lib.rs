//! Tests the generator with published schemas: for every message type and every field, the
//! generated code must agree with a foreign library.
//!
//! One side writes a random [`Message`], and the other side reads it. The build script generates
//! the code and, for each message type, a [`Driver`]. `tests/` has a file for each schema.

mod message; // messages, in the form of neither side
mod driver; // messages to and from generated code
mod field; // fields of a message type, by the foreign library
mod library; // messages to and from the foreign library
mod random; // random messages, with values that encoders often get wrong
mod checks; // checks for every message type

pub use checks::{DeclarationCounts, Schema};
pub use driver::{Driver, EnumDriver, Form, Read, Reader, encode};
pub use message::{Content, Message, Value};
