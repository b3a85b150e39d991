//! Configurations in protobuf's text format.
//!
//! Reading has three stages: a parser turns the text into a tree of names and values; the encoder
//! looks up the names in the schema and writes an encoded `TraceConfig`; `decode` decodes and
//! checks the encoded message like any other. Errors of all stages have a line and a column.

mod encode; // the tree to an encoded configuration
mod lexer; // characters to tokens
mod suggest; // suggestions for misspelled names
mod tree; // tokens to a tree of names and values

use tracezero_core::protos::owned::TraceConfig;

use crate::error::ConfigError;
use crate::from_message::decode;

/// A position in a text. Line and column count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    line: usize,
    /// The column in characters.
    column: usize,
}

impl Position {
    /// Returns the error `source` at this position.
    fn error(self, source: ConfigError) -> ConfigError {
        ConfigError::InText {
            line: self.line,
            column: self.column,
            source: Box::new(source),
        }
    }

    /// Returns a syntax error at this position.
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
/// If the text has a syntax error, or if a field or value is unknown or not supported. The error
/// has the line and column, the field and the value.
pub fn from_text(text: &str) -> Result<TraceConfig, ConfigError> {
    let tree = tree::parse(text)?;
    let encoded = encode::encode(&tree)?;
    decode(&encoded.bytes).map_err(|error| {
        let at = encoded.position(error.path());
        at.error(error)
    })
}
