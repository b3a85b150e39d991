//! Schemas that nobody here wrote: does the generator's code for them agree with a foreign library,
//! for every message type and every field?
//!
//! A message is made at random ([`Message`]), written by one side and read by the other. The build
//! script generates the code and, for each message type, a [`Driver`]; `tests/` has a file for each
//! schema.

mod message; // what both sides must agree in
mod driver; // from messages through generated code, and back
mod field; // the fields of a message type, in the foreign library's words
mod library; // from messages to the foreign library, and back
mod random; // messages with values that encoders get wrong
mod checks; // what must hold for every message type

pub use checks::{Declared, Schema};
pub use driver::{Driver, EnumDriver, Form, Read, Reader, encode};
pub use message::{Content, Message, Value};
