//! Splits a text into tokens: names, numbers, strings and symbols, each with its position.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

use super::Position;
use crate::error::ConfigError;

/// A token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name: of a field, of an enum's value, or `true`.
    Name(String),
    /// A number without its sign. Its characters are not parsed yet.
    Number(String),
    /// The content of a string, without quotes and with escapes replaced.
    Text(Vec<u8>),
    /// A symbol.
    Symbol(char),
    /// The end of the text.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) | Self::Number(text) => f.write_str(text),
            Self::Text(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Symbol(symbol) => write!(f, "{symbol:?}"),
            Self::End => f.write_str("the end of the text"),
        }
    }
}

/// A reader of tokens.
pub(super) struct Lexer<'t> {
    rest: Peekable<Chars<'t>>,
    /// The position of the first character of `rest`.
    at: Position,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            // Some editors write a byte order mark at the beginning.
            rest: text.trim_start_matches('\u{feff}').chars().peekable(),
            at: Position { line: 1, column: 1 },
        }
    }

    /// Reads the next token. Returns it with the position where it begins.
    pub(super) fn token(&mut self) -> Result<(Token, Position), ConfigError> {
        self.skip_blanks();
        let at = self.at;
        let token = match self.rest.peek() {
            None => Token::End,
            Some(&first) if is_name_char(first) && !first.is_ascii_digit() => {
                Token::Name(self.take_while(is_name_char))
            }
            Some(&first) if first.is_ascii_digit() || first == '.' => Token::Number(self.number()),
            Some(&quote @ ('"' | '\'')) => Token::Text(self.text(quote)?),
            Some(&symbol @ ('{' | '}' | '<' | '>' | '[' | ']' | ':' | ';' | ',' | '-' | '/')) => {
                self.next_char();
                Token::Symbol(symbol)
            }
            Some(other) => {
                return Err(at.syntax_error(format!("unexpected character {other:?}")));
            }
        };
        Ok((token, at))
    }

    fn next_char(&mut self) -> Option<char> {
        let taken = self.rest.next()?;
        if taken == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(taken)
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        while let Some(&next) = self.rest.peek() {
            if next == '#' {
                while self.rest.peek().is_some_and(|&c| c != '\n') {
                    self.next_char();
                }
            } else if next.is_ascii_whitespace() {
                self.next_char();
            } else {
                return;
            }
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(&next) = self.rest.peek()
            && wanted(next)
        {
            taken.push(next);
            self.next_char();
        }
        taken
    }

    /// Reads all characters that may belong to a number. The encoder, which knows the type of the
    /// field, checks them.
    fn number(&mut self) -> String {
        let mut number = String::new();
        while let Some(&next) = self.rest.peek() {
            let is_hex = number.starts_with("0x") || number.starts_with("0X");
            let after_exponent = !is_hex && number.ends_with(['e', 'E']);
            let belongs =
                is_name_char(next) || next == '.' || (after_exponent && matches!(next, '+' | '-'));
            if !belongs {
                break;
            }
            number.push(next);
            self.next_char();
        }
        number
    }

    /// Reads a string in quotes, which must end on the same line.
    fn text(&mut self, quote: char) -> Result<Vec<u8>, ConfigError> {
        let start = self.at;
        self.next_char();
        let mut text = Vec::new();
        loop {
            let at = self.at;
            match self.next_char() {
                None | Some('\n') => {
                    return Err(start.syntax_error("the string has no closing quote on its line"));
                }
                Some('\\') => self.escape(at, &mut text)?,
                Some(next) if next == quote => return Ok(text),
                Some(next) => text.extend(next.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
    }

    /// Reads the rest of an escape, whose backslash is at `at`, and appends its bytes to `text`.
    fn escape(&mut self, at: Position, text: &mut Vec<u8>) -> Result<(), ConfigError> {
        let unknown = |what: &str| at.syntax_error(format!("unknown escape \\{what} in a string"));
        let Some(escaped) = self.next_char() else {
            return Err(unknown(""));
        };
        match escaped {
            'a' => text.push(0x07),
            'b' => text.push(0x08),
            'f' => text.push(0x0c),
            'n' => text.push(b'\n'),
            'r' => text.push(b'\r'),
            't' => text.push(b'\t'),
            'v' => text.push(0x0b),
            '\\' | '\'' | '"' | '?' => text.push(escaped as u8),
            '0'..='7' => {
                let first = escaped.to_digit(8).unwrap_or_default();
                let byte = self.digits(8, 2, first).0;
                text.push(u8::try_from(byte).map_err(|_| {
                    at.syntax_error(format!("the escape \\{byte:o} is more than one byte"))
                })?);
            }
            'x' | 'X' => match self.digits(16, 2, 0) {
                (_, 0) => return Err(at.syntax_error("the escape \\x has no digits after it")),
                (byte, _) => text.push(byte as u8),
            },
            'u' | 'U' => {
                let wanted = if escaped == 'u' { 4 } else { 8 };
                let (code, count) = self.digits(16, wanted, 0);
                match char::from_u32(code) {
                    Some(c) if count == wanted => text.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                    _ => {
                        return Err(at.syntax_error(format!(
                            "the escape \\{escaped} needs {wanted} hexadecimal digits of a character"
                        )));
                    }
                }
            }
            other => return Err(unknown(&other.to_string())),
        }
        Ok(())
    }

    /// Reads up to `count_max` digits and appends them to the number `value`. Returns the number
    /// and the count of digits read.
    fn digits(&mut self, radix: u32, count_max: usize, value: u32) -> (u32, usize) {
        let mut value = value;
        let mut count = 0;
        while count < count_max
            && let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(radix))
        {
            value = value.wrapping_mul(radix).wrapping_add(digit);
            count += 1;
            self.next_char();
        }
        (value, count)
    }
}

const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
