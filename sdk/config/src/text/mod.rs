//! Configurations that people write, in protobuf's text format.
//!
//! A text becomes a tree of names and values, the tree becomes an encoded `TraceConfig` by the
//! names that the schema has, and that is decoded like any other. Whatever is wrong, at any of the
//! three stages, is told with its line and column.

mod encode; // names and values to an encoded configuration
mod lexer; // characters to tokens
mod suggest; // what a wrong name might have been meant to be
mod tree; // tokens to names and values

use tracezero_core::protos::owned::TraceConfig;

use crate::error::ConfigError;
use crate::from_message::decode;

/// A place in a text; line and column count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    line: usize,
    /// In characters.
    column: usize,
}

impl Position {
    /// What is wrong here.
    fn error(self, source: ConfigError) -> ConfigError {
        ConfigError::InText {
            line: self.line,
            column: self.column,
            source: Box::new(source),
        }
    }

    /// The text is not formed as it should be here.
    fn syntax_error(self, reason: impl Into<String>) -> ConfigError {
        self.error(ConfigError::Syntax {
            reason: reason.into(),
        })
    }
}

/// Reads a configuration in protobuf's text format.
///
/// # Errors
///
/// If the text is not well-formed, or names what the schema or this crate does not have: with
/// line and column, the field and the value.
pub fn from_text(text: &str) -> Result<TraceConfig, ConfigError> {
    let tree = tree::parse(text)?;
    let encoded = encode::encode(&tree)?;
    decode(&encoded.bytes).map_err(|error| {
        let at = encoded.position(error.path());
        at.error(error)
    })
}
