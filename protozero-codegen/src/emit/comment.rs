//! Comments of a schema as documentation: converts plain text to Markdown that shows the same text.
//!
//! A comment must never become code that is compiled as a test, a broken link, or HTML. So every
//! character with a meaning in Markdown is escaped. Exceptions are paragraphs, code in backquotes,
//! and addresses of web pages.

/// Converts a comment to Markdown. Paragraphs, and lines that must not run together, stay separate.
pub(super) fn markdown(comment: &str) -> String {
    let mut markdown = String::new();
    let mut paragraph_indentation = None;
    for line in comment.lines() {
        let line = printable(line);
        let text = line.trim();
        if text.is_empty() {
            paragraph_indentation = None;
            continue;
        }
        let indentation = line.len() - line.trim_start().len();
        match paragraph_indentation {
            None if markdown.is_empty() => {}
            None => markdown.push_str("\n\n"),
            // Break the line explicitly, because lists and tables would run together.
            Some(first) if indentation != first || starts_an_item(text) => {
                markdown.push_str("\\\n");
            }
            Some(_) => markdown.push('\n'),
        }
        paragraph_indentation = Some(indentation);
        markdown.push_str(&escaped_line(text));
    }
    markdown
}

/// Replaces characters that a source file may not contain, or that change how editors show it.
fn printable(line: &str) -> String {
    let shown = |character: char| match character {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        character if character.is_control() => ' ',
        character => character,
    };
    line.chars().map(shown).collect()
}

/// Returns true if a line begins with a bullet or a number.
fn starts_an_item(text: &str) -> bool {
    let is_mark = |mark: &str| {
        let digits = mark.trim_end_matches(['.', ')', ':']);
        let is_number = digits.len() < mark.len() && digits.chars().all(|it| it.is_ascii_digit());
        matches!(mark, "-" | "*" | "+" | "\u{2022}") || is_number
    };
    text.split(' ').next().is_some_and(is_mark)
}

fn escaped_line(text: &str) -> String {
    let mut markdown = String::new();
    let mut rest = text;
    // A number with a dot begins a list.
    let digits = rest.len()
        - rest
            .trim_start_matches(|it: char| it.is_ascii_digit())
            .len();
    if digits > 0 && rest[digits..].starts_with(['.', ')']) {
        markdown.push_str(&rest[..digits]);
        markdown.push('\\');
        markdown.push_str(&rest[digits..=digits]);
        rest = &rest[digits + 1..];
    } else if rest.starts_with(['#', '+', '-', '=', ':']) {
        markdown.push('\\');
        markdown.push_str(&rest[..1]);
        rest = &rest[1..];
    }
    let mut previous = ' ';
    while let Some(character) = rest.chars().next() {
        if let Some(length) = address(rest).or_else(|| code(rest, previous)) {
            let (whole, after) = rest.split_at(length);
            match character {
                '`' => markdown.push_str(whole),
                _ => markdown.extend(["<", whole, ">"]),
            }
            previous = whole.chars().next_back().unwrap_or(' ');
            rest = after;
            continue;
        }
        let after = &rest[character.len_utf8()..];
        let is_special = match character {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' => true,
            // Inside a word, an underscore has no meaning in Markdown.
            '_' => !previous.is_alphanumeric() || !after.starts_with(char::is_alphanumeric),
            _ => false,
        };
        if is_special {
            markdown.push('\\');
        }
        markdown.push(character);
        previous = character;
        rest = after;
    }
    markdown
}

/// Returns the length of the web address at the start of the text, if there is one.
fn address(text: &str) -> Option<usize> {
    let is_scheme = |scheme: &&str| text.starts_with(*scheme);
    let scheme = ["https://", "http://"].into_iter().find(is_scheme)?;
    let is_part = |character: char| {
        character.is_ascii_alphanumeric() || "-._~:/?#@!$&*+,;=%()".contains(character)
    };
    let end = text.find(|it| !is_part(it)).unwrap_or(text.len());
    // Punctuation at the end of a sentence is not part of the address.
    let address = text[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '(', '*']);
    (address.len() > scheme.len()).then_some(address.len())
}

/// Returns the length of the code in backquotes at the start of the text, if there is any.
fn code(text: &str, previous: char) -> Option<usize> {
    let inner = text.strip_prefix('`').filter(|_| previous != '`')?;
    let length = inner.find('`').filter(|&length| length > 0)?;
    let is_single = !inner[length + 1..].starts_with('`');
    // Lints may report code with space at its ends.
    let is_tight = inner[..length].trim().len() == length;
    (is_single && is_tight).then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_and_items_stay_apart() {
        let comment = "One\ntwo.\n\n\nList:\n- a\n  more\n1. b\n 2) c\n\n    code();\n";
        let expected = "One\ntwo.\n\nList:\\\n\\- a\\\nmore\\\n1\\. b\\\n2\\) c\n\ncode();";
        assert_eq!(markdown(comment), expected);
        assert_eq!(markdown(""), "");
        assert_eq!(markdown(" \n\t\n"), "");
    }

    #[test]
    fn what_markdown_knows_is_escaped() {
        for (text, expected) in [
            ("a [link] (b) [c](d)", "a \\[link\\] (b) \\[c\\](d)"),
            ("Vec<T> & <br>", "Vec\\<T\\> \\& \\<br\\>"),
            (
                "*a* **b** _c_ d_e ~f~",
                "\\*a\\* \\*\\*b\\*\\* \\_c\\_ d_e \\~f\\~",
            ),
            ("__x__y_", "\\_\\_x\\_\\_y\\_"),
            ("# Errors", "\\# Errors"),
            ("===", "\\==="),
            ("--- | ---", "\\--- \\| ---"),
            ("> quote \\", "\\> quote \\\\"),
            ("2024. A", "2024\\. A"),
            ("2024 a", "2024 a"),
            ("3.5 a", "3\\.5 a"),
            ("é_é", "é_é"),
        ] {
            assert_eq!(markdown(text), expected);
        }
    }

    #[test]
    fn code_stays_code_if_it_is_closed() {
        for (text, expected) in [
            ("the `a_b[c]<d>` field", "the `a_b[c]<d>` field"),
            ("`a` `b`", "`a` `b`"),
            ("```", "\\`\\`\\`"),
            ("```rust", "\\`\\`\\`rust"),
            ("``a``", "\\`\\`a\\`\\`"),
            ("an `open one", "an \\`open one"),
            ("` a `", "\\` a \\`"),
            ("`a` `b", "`a` \\`b"),
        ] {
            assert_eq!(markdown(text), expected);
        }
    }

    #[test]
    fn addresses_become_links() {
        for (text, expected) in [
            (
                "See https://a.b/c_d?e=f&g#h.",
                "See <https://a.b/c_d?e=f&g#h>.",
            ),
            ("(http://a.b)", "(<http://a.b>)"),
            ("[x](http://a.b)", "\\[x\\](<http://a.b>)"),
            ("<http://a.b>", "\\<<http://a.b>\\>"),
            ("http:// https://", "http:// https://"),
        ] {
            assert_eq!(markdown(text), expected);
        }
    }

    #[test]
    fn characters_that_source_may_not_hold_are_replaced() {
        assert_eq!(markdown("a\tb\u{202e}c\rd\u{0}e"), "a b\u{fffd}c d e");
    }
}
