//! Parses tokens into a tree of names and values. Does not know the schema.

use super::Position;
use super::lexer::{Lexer, Token};
use crate::error::ConfigError;

/// The deepest nesting of messages. The schema needs six levels.
const DEPTH_MAX: usize = 32;

/// The fields of a message, in the order of the text.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) fields: Vec<Field>,
}

/// A name with its value or values.
#[derive(Debug)]
pub(super) struct Field {
    /// The position of the name.
    pub(super) at: Position,
    pub(super) name: String,
    /// One value, or the values of a list in brackets.
    pub(super) values: Vec<Value>,
    /// True if the values are a list in brackets.
    pub(super) is_list: bool,
}

#[derive(Debug)]
pub(super) enum Value {
    /// A name of a value, such as `true` or a value of an enum.
    Name(String),
    /// A number with its sign. The digits are not parsed yet.
    Number { negative: bool, digits: String },
    /// A string, or several adjacent strings joined.
    Text(Vec<u8>),
    /// Fields in braces.
    Message(Message),
}

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Message, ConfigError> {
    let mut lexer = Lexer::new(text);
    let next = lexer.token()?;
    let mut parser = Parser { lexer, next };
    parser.message(None, 0)
}

/// The opening brace of a message whose end is not parsed yet.
#[derive(Clone, Copy)]
struct OpenBrace {
    /// The closing brace that must follow.
    close: char,
    /// The position of the opening brace.
    at: Position,
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    next: (Token, Position),
}

impl Parser<'_> {
    /// Takes the next token.
    fn take(&mut self) -> Result<(Token, Position), ConfigError> {
        let next = self.lexer.token()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Takes the next token if it is this symbol.
    fn take_if(&mut self, symbol: char) -> Result<bool, ConfigError> {
        let is_next = self.next.0 == Token::Symbol(symbol);
        if is_next {
            self.take()?;
        }
        Ok(is_next)
    }

    fn unexpected(&self, wanted: &str) -> ConfigError {
        let (token, at) = &self.next;
        at.syntax_error(format!("expected {wanted}, found {token}"))
    }

    /// Parses fields up to the closing brace that matches `open`. If `open` is `None`, parses up to
    /// the end of the text.
    fn message(&mut self, open: Option<OpenBrace>, depth: usize) -> Result<Message, ConfigError> {
        let mut message = Message::default();
        loop {
            match (&self.next.0, open) {
                (Token::End, None) => return Ok(message),
                (Token::End, Some(OpenBrace { close, at })) => {
                    return Err(self.unexpected(&format!(
                        "{close:?} for the message at line {}, column {}",
                        at.line, at.column
                    )));
                }
                (Token::Symbol(symbol), Some(OpenBrace { close, .. })) if *symbol == close => {
                    self.take()?;
                    return Ok(message);
                }
                (Token::Name(_), _) => message.fields.push(self.field(depth)?),
                (Token::Symbol('['), _) => {
                    return Err(self.next.1.syntax_error(
                        "extensions (names in brackets) are not supported; leave them out",
                    ));
                }
                (_, None) => return Err(self.unexpected("a field name")),
                (_, Some(OpenBrace { close, .. })) => {
                    return Err(self.unexpected(&format!("a field name or {close:?}")));
                }
            }
        }
    }

    /// Parses a field: its name, its value or values, and the separator that may follow.
    fn field(&mut self, depth: usize) -> Result<Field, ConfigError> {
        let (Token::Name(name), at) = self.take()? else {
            return Err(self.unexpected("a field name"));
        };
        let has_colon = self.take_if(':')?;
        let mut values = Vec::new();
        let is_list = self.take_if('[')?;
        if is_list {
            if !self.take_if(']')? {
                loop {
                    values.push(self.value(has_colon, depth)?);
                    if self.take_if(']')? {
                        break;
                    }
                    if !self.take_if(',')? {
                        return Err(self.unexpected("',' or ']'"));
                    }
                }
            }
        } else {
            values.push(self.value(has_colon, depth)?);
        }
        if !self.take_if(',')? {
            self.take_if(';')?;
        }
        Ok(Field {
            at,
            name,
            values,
            is_list,
        })
    }

    /// Parses one value. A message needs no colon in front; every other value needs one.
    fn value(&mut self, has_colon: bool, depth: usize) -> Result<Value, ConfigError> {
        let close = match self.next.0 {
            Token::Symbol('{') => '}',
            Token::Symbol('<') => '>',
            _ if has_colon => return self.scalar(),
            _ => return Err(self.unexpected("':' or '{'")),
        };
        let (_, at) = self.take()?;
        if depth == DEPTH_MAX {
            return Err(at.syntax_error(format!("messages nest deeper than {DEPTH_MAX} levels")));
        }
        Ok(Value::Message(
            self.message(Some(OpenBrace { close, at }), depth + 1)?,
        ))
    }

    fn scalar(&mut self) -> Result<Value, ConfigError> {
        let negative = self.take_if('-')?;
        match &self.next.0 {
            Token::Number(_) => {}
            Token::Name(name) if !negative || is_float_name(name) => {}
            Token::Text(_) if !negative => {}
            _ if negative => return Err(self.unexpected("a number")),
            _ => return Err(self.unexpected("a value")),
        }
        let (token, _) = self.take()?;
        Ok(match token {
            Token::Name(name) if is_float_name(&name) => Value::Number {
                negative,
                digits: name,
            },
            Token::Name(name) => Value::Name(name),
            Token::Number(digits) => Value::Number { negative, digits },
            Token::Text(mut text) => {
                while let Token::Text(_) = self.next.0
                    && let (Token::Text(more), _) = self.take()?
                {
                    text.extend(more);
                }
                Value::Text(text)
            }
            Token::Symbol(_) | Token::End => return Err(self.unexpected("a value")),
        })
    }
}

/// Returns true if the name means a floating-point number, such as `inf`. The name cannot mean the
/// value of an enum, because the schema has no enum value with such a name.
fn is_float_name(name: &str) -> bool {
    ["inf", "infinity", "nan"]
        .iter()
        .any(|float| name.eq_ignore_ascii_case(float))
}
