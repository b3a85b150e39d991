//! Configurations that people write, in protobuf's text format.
//!
//! A text becomes a tree of names and values, the tree becomes an encoded `TraceConfig` by the
//! names that the schema has, and that is decoded like any other. Whatever is wrong, at any of the
//! three stages, is told with its line and column.

mod encode; // names and values to an encoded configuration
mod lexer; // characters to tokens
mod schema; // which names there are
mod suggest; // what a wrong name might have been meant to be
mod tree; // tokens to names and values

use super::{ConfigError, TraceConfig};

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

impl TraceConfig {
    /// Reads a configuration in protobuf's text format, the one that the `perfetto` command takes.
    ///
    /// Like a configuration that was [decoded](Self::decode), it is not checked yet, and what that
    /// refuses is refused here. The configuration of a data source can hold a `track_event_config`
    /// and a `legacy_config`; other source-specific messages need their schema to be read, which is
    /// not part of this crate.
    ///
    /// ```
    /// use tracezero::TraceConfig;
    ///
    /// let config = TraceConfig::from_text(
    ///     r#"
    ///     buffers { size_kb: 4096 name: "events" }
    ///     data_sources { config { name: "track_event" target_buffer_name: "events" } }
    ///     duration_ms: 10000  # ten seconds
    ///     "#,
    /// )?;
    /// config.check()?;
    ///
    /// let error = TraceConfig::from_text("buffers {\n  size: 4096\n}").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "line 2, column 3: buffers[0].size: unknown field: did you mean size_kb?"
    /// );
    /// # Ok::<(), tracezero::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is not well-formed, or names what the schema or this crate does not have: with
    /// line and column, the field and the value.
    pub fn from_text(text: &str) -> Result<Self, ConfigError> {
        let tree = tree::parse(text)?;
        let encoded = encode::encode(&tree)?;
        Self::decode(&encoded.bytes).map_err(|error| {
            let at = encoded.position(error.path());
            at.error(error)
        })
    }
}
