//! A scanner for facts about a `.proto` file that the parser does not return: the positions of
//! declarations, their comments, and the imports before anything has been parsed.
//!
//! The scanner never fails. In malformed text it finds fewer declarations; the parser then reports
//! the error.

mod gap;

use std::iter::Peekable;
use std::str::CharIndices;

use gap::{Comment, Gap};

/// A place in a file. Line and column start at 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    /// A word or number: letters, digits and underscores.
    Word,
    /// A string literal; the token's text is the text between the quotes.
    String,
    /// One character of punctuation.
    Symbol,
}

#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    kind: TokenKind,
    text: &'a str,
    at: Position,
    /// The number of comments before the token.
    comments_before: usize,
}

impl Token<'_> {
    fn is_symbol(self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && self.text == symbol
    }

    fn is_word(self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text == word
    }
}

/// The kind of a [`Declaration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    Enum,
    Extend,
    Oneof,
    Group,
    Service,
    Field,
    EnumValue,
}

/// A declaration with a name in a file.
#[derive(Debug, Clone)]
pub(crate) struct Declaration {
    pub(crate) kind: Kind,
    /// The full name of the message or package around the declaration, without a leading dot. A
    /// oneof or an `extend` block does not count.
    pub(crate) scope: String,
    /// The name as written; for `extend`, the name of the extended message.
    pub(crate) name: String,
    pub(crate) at: Position,
    /// The type of a field, as written.
    pub(crate) type_name: Option<(String, Position)>,
    /// The number of a field or enum value.
    pub(crate) number: Option<(i64, Position)>,
    /// The label of a field: `optional`, `required` or `repeated`.
    pub(crate) label: Option<(String, Position)>,
    /// The type of a map field's keys.
    pub(crate) map_key: Option<(String, Position)>,
    /// For a declaration in an `enum` or `extend` block, the enum or the extended message, as
    /// written.
    pub(crate) owner: Option<String>,
    /// The comment above the declaration: the text between the comment marks.
    pub(crate) leading_comment: String,
    /// The comment behind the declaration.
    pub(crate) trailing_comment: String,
}

/// An `import` statement.
#[derive(Debug, Clone)]
pub(crate) struct Import {
    pub(crate) path: String,
    pub(crate) at: Position,
}

/// The facts that the scanner finds in one file.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) imports: Vec<Import>,
    /// The edition in an `edition = ".."` statement.
    pub(crate) edition: Option<(String, Position)>,
    pub(crate) declarations: Vec<Declaration>,
    /// The first bracket that nests deeper than [`MAX_DEPTH`]. The text behind it is not scanned.
    pub(crate) too_deep: Option<Position>,
}

/// The maximum nesting depth of brackets. The parser recurses at each level.
pub(crate) const MAX_DEPTH: usize = 64;

impl Outline {
    pub(crate) fn of(text: &str) -> Self {
        let mut scan = Tokens::new(text);
        let mut tokens: Vec<Token<'_>> = scan.by_ref().collect();
        let too_deep = first_too_deep(&tokens).map(|index| (index, tokens[index].at));
        // Each declaration stores the names of the blocks around it. Without a limit, the scopes of
        // a file would take memory in proportion to the square of its length.
        if let Some((index, _)) = too_deep {
            tokens.truncate(index);
        }
        let mut scanner = Scanner {
            outline: Outline {
                too_deep: too_deep.map(|(_, at)| at),
                ..Outline::default()
            },
            package: String::new(),
            blocks: Vec::new(),
            leading: String::new(),
            trailing: String::new(),
        };
        let mut rest = tokens.as_slice();
        let first = rest.first().copied();
        scanner.leading = Gap::between(None, first, &scan.comments).leading;
        while let Some((statement, end, after)) = split_statement(rest) {
            let last = rest[statement.len()];
            let gap = Gap::between(Some(last), after.first().copied(), &scan.comments);
            scanner.trailing = gap.trailing;
            scanner.statement(statement, end);
            scanner.leading = gap.leading;
            rest = after;
        }
        scanner.outline
    }
}

/// Returns the index of the first bracket that nests deeper than [`MAX_DEPTH`].
fn first_too_deep(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            _ if token.kind != TokenKind::Symbol => {}
            "{" | "[" | "(" | "<" => depth += 1,
            "}" | "]" | ")" | ">" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Some(index);
        }
    }
    None
}

/// The end mark of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Semicolon,
    OpenBlock,
    CloseBlock,
}

/// Splits off the first statement. Returns its tokens without the end mark, the end mark, and the
/// remaining tokens.
fn split_statement<'t, 'a>(
    tokens: &'t [Token<'a>],
) -> Option<(&'t [Token<'a>], End, &'t [Token<'a>])> {
    // Braces in the value of an option, also inside the `[..]` of a field, do not open a block.
    let is_option = tokens.first().is_some_and(|token| token.is_word("option"));
    let mut inside = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        if token.kind != TokenKind::Symbol {
            continue;
        }
        let end = match token.text {
            ";" if inside == 0 => End::Semicolon,
            "{" if inside == 0 && !is_option => End::OpenBlock,
            "}" if inside == 0 => End::CloseBlock,
            "[" | "(" | "{" => {
                inside += 1;
                continue;
            }
            "]" | ")" | "}" => {
                inside = inside.saturating_sub(1);
                continue;
            }
            _ => continue,
        };
        return Some((&tokens[..index], end, &tokens[index + 1..]));
    }
    None
}

struct Block {
    kind: Kind,
    /// The name of the message or enum, or the extended message of an `extend` block.
    name: String,
}

struct Scanner {
    outline: Outline,
    package: String,
    blocks: Vec<Block>,
    /// The comments around the current statement.
    leading: String,
    trailing: String,
}

impl Scanner {
    fn statement(&mut self, statement: &[Token<'_>], end: End) {
        match end {
            End::Semicolon if self.blocks.is_empty() => self.file_statement(statement),
            End::Semicolon => self.member(statement),
            End::OpenBlock => self.open_block(statement),
            End::CloseBlock => {
                self.blocks.pop();
            }
        }
    }

    fn scope(&self) -> String {
        let messages = self
            .blocks
            .iter()
            .filter(|block| matches!(block.kind, Kind::Message | Kind::Group))
            .map(|block| block.name.as_str());
        let parts: Vec<&str> = std::iter::once(self.package.as_str())
            .filter(|package| !package.is_empty())
            .chain(messages)
            .collect();
        parts.join(".")
    }

    fn declare(&mut self, kind: Kind, name: &str, at: Position) -> &mut Declaration {
        let owner = match self.blocks.last() {
            Some(block) if matches!(block.kind, Kind::Enum | Kind::Extend) => {
                Some(block.name.clone())
            }
            _ => None,
        };
        let declaration = Declaration {
            kind,
            scope: self.scope(),
            name: name.to_owned(),
            at,
            type_name: None,
            number: None,
            label: None,
            map_key: None,
            owner,
            leading_comment: std::mem::take(&mut self.leading),
            trailing_comment: std::mem::take(&mut self.trailing),
        };
        self.outline.declarations.push(declaration);
        let last = self.outline.declarations.len() - 1;
        &mut self.outline.declarations[last]
    }

    fn file_statement(&mut self, statement: &[Token<'_>]) {
        match statement {
            [head, rest @ ..] if head.is_word("import") => {
                let literals = rest.iter().filter(|token| token.kind == TokenKind::String);
                let path = literals.clone().map(|token| token.text).collect();
                if let Some(first) = literals.clone().next() {
                    self.outline.imports.push(Import { path, at: first.at });
                }
            }
            [head, rest @ ..] if head.is_word("package") => {
                self.package = rest.iter().map(|token| token.text).collect();
            }
            [head, equals, edition] if head.is_word("edition") && equals.is_symbol("=") => {
                self.outline.edition = Some((edition.text.to_owned(), head.at));
            }
            _ => {}
        }
    }

    fn open_block(&mut self, statement: &[Token<'_>]) {
        let (kind, name) = match statement {
            [head, name] if head.is_word("message") => (Kind::Message, name.text.to_owned()),
            [head, name] if head.is_word("enum") => (Kind::Enum, name.text.to_owned()),
            [head, name] if head.is_word("oneof") => (Kind::Oneof, name.text.to_owned()),
            [head, name @ ..] if head.is_word("extend") && !name.is_empty() => {
                (Kind::Extend, name.iter().map(|token| token.text).collect())
            }
            [group, name, equals, ..] | [_, group, name, equals, ..]
                if group.is_word("group") && equals.is_symbol("=") =>
            {
                (Kind::Group, name.text.to_owned())
            }
            _ => (Kind::Service, String::new()),
        };
        let at = match kind {
            Kind::Group => statement
                .iter()
                .position(|token| token.is_word("group"))
                .and_then(|index| statement.get(index + 1))
                .map(|token| token.at),
            _ => statement.get(1).map(|token| token.at),
        };
        if let Some(at) = at {
            self.declare(kind, &name, at);
        }
        self.blocks.push(Block { kind, name });
    }

    /// Handles a statement that is inside a block and ends in a semicolon: a field, an enum value,
    /// or another statement.
    fn member(&mut self, statement: &[Token<'_>]) {
        let kind = match self.blocks.last().map(|block| block.kind) {
            Some(Kind::Enum) => Kind::EnumValue,
            Some(Kind::Message | Kind::Extend | Kind::Oneof | Kind::Group) => Kind::Field,
            _ => return,
        };
        if statement.first().is_some_and(|head| head.is_word("option")) {
            return;
        }
        let equals = statement
            .iter()
            .take_while(|token| !token.is_symbol("["))
            .position(|token| token.is_symbol("="));
        let Some(equals) = equals else {
            return;
        };
        let (left, right) = (&statement[..equals], &statement[equals + 1..]);
        let Some((name, type_tokens)) = left.split_last() else {
            return;
        };
        let number = match right {
            [minus, digits, ..] if minus.is_symbol("-") => {
                parse_integer(digits.text).map(|number| (-number, minus.at))
            }
            [digits, ..] => parse_integer(digits.text).map(|number| (number, digits.at)),
            [] => None,
        };
        let (label, type_tokens) = split_label(type_tokens);
        let (value_type, map_key) = split_map(type_tokens);
        let declaration = self.declare(kind, name.text, name.at);
        declaration.number = number;
        if kind == Kind::Field {
            declaration.type_name = joined(value_type);
            declaration.label = joined(label);
            declaration.map_key = map_key.map(|key| (key.text.to_owned(), key.at));
        }
    }
}

/// Splits the tokens of a type into the label, if there is one, and the type.
fn split_label<'t, 'a>(tokens: &'t [Token<'a>]) -> (&'t [Token<'a>], &'t [Token<'a>]) {
    let is_label = |token: &Token<'_>| {
        token.is_word("optional") || token.is_word("required") || token.is_word("repeated")
    };
    // A single token is a type, even if it reads like a label.
    let has_label = tokens.len() > 1 && tokens.first().is_some_and(is_label);
    tokens.split_at(usize::from(has_label))
}

/// Returns the value type and the key type of a map. For any other type, returns only that type.
fn split_map<'t, 'a>(tokens: &'t [Token<'a>]) -> (&'t [Token<'a>], Option<Token<'a>>) {
    match tokens {
        [map, open, key @ .., close]
            if map.is_word("map") && open.is_symbol("<") && close.is_symbol(">") =>
        {
            let comma = key.iter().position(|token| token.is_symbol(","));
            let (key, value) = key.split_at(comma.unwrap_or(key.len()));
            (value.get(1..).unwrap_or_default(), key.first().copied())
        }
        all => (all, None),
    }
}

fn joined(tokens: &[Token<'_>]) -> Option<(String, Position)> {
    let at = tokens.first()?.at;
    Some((tokens.iter().map(|token| token.text).collect(), at))
}

fn parse_integer(text: &str) -> Option<i64> {
    if let Some(hexadecimal) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return i64::from_str_radix(hexadecimal, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => i64::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// An iterator over the tokens of a text, without white space and comments.
struct Tokens<'a> {
    text: &'a str,
    /// The comments passed so far.
    comments: Vec<Comment<'a>>,
    characters: Peekable<CharIndices<'a>>,
    next_at: Position,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        // A byte order mark is not a column.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Tokens {
            text,
            comments: Vec::new(),
            characters: text.char_indices().peekable(),
            next_at: Position { line: 1, column: 1 },
        }
    }

    fn bump(&mut self) -> Option<(usize, char)> {
        let (index, character) = self.characters.next()?;
        if character == '\n' {
            self.next_at.line += 1;
            self.next_at.column = 1;
        } else {
            self.next_at.column += 1;
        }
        Some((index, character))
    }

    fn peek(&mut self) -> Option<char> {
        self.characters.peek().map(|&(_, character)| character)
    }

    /// Returns the offset of the next character, or the length of the text at its end.
    fn offset(&mut self) -> usize {
        let end = self.text.len();
        self.characters.peek().map_or(end, |&(index, _)| index)
    }

    /// Skips and records a line comment, behind its `//`.
    fn line_comment(&mut self, first_line: u32) {
        let start = self.offset();
        while self.peek().is_some_and(|character| character != '\n') {
            self.bump();
        }
        let end = self.offset();
        self.comments.push(Comment {
            text: &self.text[start..end],
            is_block: false,
            first_line,
            last_line: first_line,
        });
    }

    /// Skips and records a block comment, behind its `/*`.
    fn block_comment(&mut self, first_line: u32) {
        let start = self.offset();
        let mut end = self.text.len();
        let mut last = ' ';
        while let Some((index, character)) = self.bump() {
            if last == '*' && character == '/' {
                end = index - 1;
                break;
            }
            last = character;
        }
        self.comments.push(Comment {
            text: &self.text[start..end],
            is_block: true,
            first_line,
            last_line: self.next_at.line,
        });
    }

    /// Skips a string literal, behind its opening quote. Returns the text up to the closing quote;
    /// an escaped quote does not close it.
    fn string(&mut self, start: usize, quote: char) -> &'a str {
        while let Some((index, character)) = self.bump() {
            if character == quote {
                return &self.text[start..index];
            }
            if character == '\\' {
                self.bump();
            }
        }
        &self.text[start..]
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let at = self.next_at;
            let (start, character) = self.bump()?;
            let after = start + character.len_utf8();
            let is_word = |character: char| character.is_alphanumeric() || character == '_';
            let (kind, text) = match character {
                _ if character.is_whitespace() => continue,
                '/' if self.peek() == Some('/') => {
                    self.bump();
                    self.line_comment(at.line);
                    continue;
                }
                '/' if self.peek() == Some('*') => {
                    self.bump();
                    self.block_comment(at.line);
                    continue;
                }
                '"' | '\'' => (TokenKind::String, self.string(after, character)),
                _ if is_word(character) => {
                    while self.peek().is_some_and(is_word) {
                        self.bump();
                    }
                    let end = self.offset();
                    (TokenKind::Word, &self.text[start..end])
                }
                _ => (TokenKind::Symbol, &self.text[start..after]),
            };
            return Some(Token {
                kind,
                text,
                at,
                comments_before: self.comments.len(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_in_comments_and_strings_are_ignored() {
        let outline = Outline::of(
            "\u{feff}// import \"a\";\n/* import \"b\"; * / */ import public 'c' \"d\";\n\
             option x = \"import \\\"e\\\";\";\nmessage M { import \"f\"; }",
        );
        let paths: Vec<&str> = outline.imports.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["cd"]);
        assert_eq!(
            outline.imports[0].at,
            Position {
                line: 2,
                column: 37
            }
        );
    }

    #[test]
    fn fields_are_found_with_scope_type_and_number() {
        let outline = Outline::of(
            "package p.q;\nmessage A { message B { repeated .x.Y f = 0x10 [a = { b: 1; }]; }\n\
             oneof o { map<int32, Z> g = 017; } reserved 1 to 5; option (x) = { y: 1 }; }\n\
             extend E { optional int32 h = 3; } enum F { V = -1; }",
        );
        let found: Vec<_> = outline
            .declarations
            .iter()
            .filter_map(|it| Some((it.scope.as_str(), it.name.as_str(), it.number?.0)))
            .collect();
        let expected = [
            ("p.q.A.B", "f", 16),
            ("p.q.A", "g", 15),
            ("p.q", "h", 3),
            ("p.q", "V", -1),
        ];
        assert_eq!(found, expected);
        let types = outline
            .declarations
            .iter()
            .filter_map(|it| it.type_name.as_ref());
        let types: Vec<&str> = types.map(|(name, _)| name.as_str()).collect();
        assert_eq!(types, [".x.Y", "Z", "int32"]);
    }

    #[test]
    fn scopes_of_deeply_nested_text_take_bounded_memory() {
        let opening = [
            "message M {",
            "optional group G = 1 {",
            "extend E { optional group H = 1 {",
            "enum E {",
            "option o = {",
            "message M { oneof o {",
        ];
        for (text, closing) in opening.iter().flat_map(|text| [(text, ""), (text, "}")]) {
            for count in [4_000, 8_000] {
                let text = text.repeat(count) + &closing.repeat(2 * count);
                let outline = Outline::of(&text);
                let written: usize = outline
                    .declarations
                    .iter()
                    .map(|it| it.scope.len() + it.name.len())
                    .sum();
                assert!(outline.too_deep.is_some(), "{count} levels");
                assert!(outline.declarations.len() <= MAX_DEPTH);
                assert!(written <= MAX_DEPTH * MAX_DEPTH * 2, "{written} bytes");
            }
        }
    }

    #[test]
    fn depth_counts_only_open_brackets() {
        let shallow = "message M { extensions 1 [(o) = { a: 1 }]; }".repeat(2 * MAX_DEPTH);
        let outline = Outline::of(&shallow);
        assert_eq!(outline.too_deep, None);
        assert_eq!(outline.declarations.len(), 2 * MAX_DEPTH);
        let deepest = "message M {".repeat(MAX_DEPTH);
        assert_eq!(Outline::of(&deepest).too_deep, None);
        let column = u32::try_from(deepest.len()).unwrap() + 1;
        let at = Position { line: 1, column };
        assert_eq!(Outline::of(&(deepest + "{")).too_deep, Some(at));
    }

    #[test]
    fn malformed_text_yields_what_can_be_found() {
        for text in [
            "",
            "}}}",
            "message",
            "message A {",
            "\"",
            "/*",
            "= = ;",
            "message A { = 1; }",
        ] {
            assert!(Outline::of(text).imports.is_empty(), "{text}");
        }
    }
}
