//! Assigns the comments between two statements to the statement before or behind. The rules are
//! those of `protoc`, so that `.proto` files and descriptor sets give the same comments.

use super::{Token, TokenKind};

#[derive(Debug)]
pub(super) struct Comment<'a> {
    /// The text between the comment marks.
    pub(super) text: &'a str,
    /// True for `/* .. */`, false for `// ..`.
    pub(super) is_block: bool,
    pub(super) first_line: u32,
    pub(super) last_line: u32,
}

/// The comments in the gap between two statements.
#[derive(Debug, Default)]
pub(super) struct Gap {
    /// The trailing comment of the statement before.
    pub(super) trailing: String,
    /// The leading comment of the statement behind.
    pub(super) leading: String,
}

/// A block comment, or consecutive line comments.
struct Paragraph {
    text: String,
    is_block: bool,
    first_line: u32,
    last_line: u32,
}

impl Gap {
    /// Assigns the comments between two tokens. `last` is `None` at the beginning of a file, `next`
    /// is `None` at its end.
    pub(super) fn between(
        last: Option<Token<'_>>,
        next: Option<Token<'_>>,
        comments: &[Comment<'_>],
    ) -> Gap {
        let start = last.map_or(0, |token| token.comments_before);
        let end = next.map_or(comments.len(), |token| token.comments_before);
        let Some(comments) = comments.get(start..end).filter(|it| !it.is_empty()) else {
            return Gap::default();
        };
        let last_line = last.map(|token| token.at.line);
        let next_line = next.map(|token| token.at.line);
        let mut paragraphs = paragraphs(comments, last_line);
        let closes = |token: Token<'_>| {
            token.kind == TokenKind::Symbol && matches!(token.text, "}" | "]" | ")")
        };
        let mut gap = Gap::default();
        // The last paragraph is a leading comment if it ends on the line of the next statement or
        // on the line before. The end of a block has no leading comment.
        let is_leading = |paragraph: &Paragraph| {
            let is_beside_last = Some(paragraph.first_line) == last_line;
            next_line.is_some_and(|line| line <= paragraph.last_line + 1)
                && next.is_some_and(|token| !closes(token))
                && !is_beside_last
        };
        if paragraphs.last().is_some_and(is_leading)
            && let Some(paragraph) = paragraphs.pop()
        {
            gap.leading = paragraph.text;
        }
        // The first paragraph is a trailing comment if it begins on the line of the statement
        // before or on the next line. If both statements are on the line of the paragraph, the
        // paragraph belongs to neither.
        if let (Some(line), Some(first)) = (last_line, paragraphs.first()) {
            let is_between = first.first_line == line && next_line == Some(first.last_line);
            if first.first_line <= line + 1 && !is_between {
                gap.trailing = paragraphs.swap_remove(0).text;
            }
        }
        gap
    }
}

/// Joins line comments on consecutive lines. A comment on the line of the statement before remains
/// separate, and so does each block comment.
fn paragraphs(comments: &[Comment<'_>], last_line: Option<u32>) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    for comment in comments {
        let text = match comment.is_block {
            true => without_stars(comment.text),
            false => comment.text.to_owned(),
        };
        match paragraphs.last_mut() {
            Some(paragraph)
                if !comment.is_block
                    && !paragraph.is_block
                    && paragraph.last_line + 1 == comment.first_line
                    && Some(paragraph.first_line) != last_line =>
            {
                paragraph.text.push('\n');
                paragraph.text.push_str(&text);
                paragraph.last_line = comment.last_line;
            }
            _ => paragraphs.push(Paragraph {
                text,
                is_block: comment.is_block,
                first_line: comment.first_line,
                last_line: comment.last_line,
            }),
        }
    }
    paragraphs
}

/// Removes the stars with which the lines of a block comment usually start.
fn without_stars(block: &str) -> String {
    let mut lines = block.lines();
    let first = lines.next().unwrap_or_default();
    let rest = lines.map(|line| {
        let line = line.trim_start();
        line.strip_prefix('*').unwrap_or(line)
    });
    let lines: Vec<&str> = std::iter::once(first).chain(rest).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::Outline;

    /// Returns the name, the leading and the trailing comment of each declaration.
    fn comments(text: &str) -> Vec<(String, String, String)> {
        let outline = Outline::of(text);
        let declarations = outline.declarations.into_iter();
        declarations
            .map(|it| (it.name, it.leading_comment, it.trailing_comment))
            .collect()
    }

    #[track_caller]
    fn assert_comments(text: &str, expected: &[(&str, &str, &str)]) {
        let found = comments(text);
        let found: Vec<(&str, &str, &str)> = found
            .iter()
            .map(|(name, leading, trailing)| (name.as_str(), leading.as_str(), trailing.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn comment_directly_above_is_leading_and_detached_is_dropped() {
        assert_comments(
            "// License\n\n// One\n// of M\nmessage M {\n  // detached\n\n  // f\n  \
             optional int32 f = 1;\n\n  // far\n\n  optional int32 g = 2;\n}",
            &[
                ("M", " One\n of M", " detached"),
                ("f", " f", ""),
                ("g", "", ""),
            ],
        );
    }

    #[test]
    fn comment_on_the_same_line_is_trailing() {
        assert_comments(
            "message M { // of M\n  optional int32 f = 1; // of f\n  // of g\n  \
             optional int32 g = 2; /* of g */\n} // of nobody\nenum E { V = 1; // of V\n}",
            &[
                ("M", "", " of M"),
                ("f", "", " of f"),
                ("g", " of g", " of g "),
                ("E", "", ""),
                ("V", "", " of V"),
            ],
        );
    }

    #[test]
    fn comment_below_is_trailing_if_nothing_else_is_near() {
        assert_comments(
            "enum E {\n  A = 1;\n  // of A\n  // still\n\n  B = 2;\n  // of B\n}\n",
            &[
                ("E", "", ""),
                ("A", "", " of A\n still"),
                ("B", "", " of B"),
            ],
        );
    }

    #[test]
    fn block_comments_lose_their_stars() {
        assert_comments(
            "/* One\n * of M\n   * and\n   more\n */\nmessage M {}\n/** N */ message N {}",
            &[("M", " One\n of M\n and\nmore\n", ""), ("N", "* N ", "")],
        );
    }

    #[test]
    fn comment_between_two_statements_of_a_line_is_dropped() {
        assert_comments(
            "enum E { A = 1; /* a or b */ B = 2; }",
            &[("E", "", ""), ("A", "", ""), ("B", "", "")],
        );
    }

    #[test]
    fn comments_inside_a_statement_are_dropped() {
        assert_comments(
            "message M {\n  // of f\n  optional // a\n  int32 f /* b */ = 1 // c\n  ;\n  \
             // of o\n  oneof o {\n    // of g\n    int32 g = 2 [deprecated = true];\n  }\n}",
            &[
                ("M", "", ""),
                ("f", " of f", ""),
                ("o", " of o", ""),
                ("g", " of g", ""),
            ],
        );
    }

    #[test]
    fn comments_that_never_end_reach_to_the_end() {
        assert_comments("enum E { A = 1; } /* x", &[("E", "", ""), ("A", "", "")]);
        assert_comments("enum E { A = 1; // x", &[("E", "", ""), ("A", "", " x")]);
        assert_comments("enum E { A = 1; /*", &[("E", "", ""), ("A", "", "")]);
    }
}
