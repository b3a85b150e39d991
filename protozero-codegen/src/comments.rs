//! The comments of a schema, by declaration. They come from the scanner (`source.rs`) or from a
//! descriptor set. The emitter formats them.

use std::collections::BTreeMap;

/// The comments of all declarations.
#[derive(Debug, Default)]
pub(crate) struct Comments {
    /// Texts by the full name of the declaration, without a leading dot. Unlike in protobuf, the
    /// full name of an enum value includes its enum.
    texts: BTreeMap<String, String>,
}

impl Comments {
    /// Adds the comments above and behind a declaration: the text between the comment marks.
    pub(crate) fn add(&mut self, name: String, leading: &str, trailing: &str) {
        let texts = [leading, trailing].map(without_frame);
        let texts: Vec<&str> = texts
            .iter()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        if !texts.is_empty() {
            self.texts.insert(name, texts.join("\n\n"));
        }
    }

    /// Returns the comment of a declaration, or an empty text if it has none.
    pub(crate) fn of(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }
}

/// Removes empty lines around the text, space at the ends of lines, and the indentation that all
/// lines share. Also removes a star at the start of the text, which is the second star of `/**`.
fn without_frame(text: &str) -> String {
    let text = text.strip_prefix('*').unwrap_or(text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let shared = lines
        .iter()
        .filter(|line| !line.is_empty())
        .map(indentation)
        .min()
        .unwrap_or(0);
    let lines: Vec<&str> = lines
        .iter()
        .map(|line| line.get(shared..).unwrap_or_default())
        .collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_above_and_behind_become_paragraphs() {
        let mut comments = Comments::default();
        comments.add(
            "a".to_owned(),
            " \n  First.\n    Indented. \n\n  Second.\n",
            " Third.\n\n",
        );
        comments.add("b".to_owned(), "\n\n", "  ");
        comments.add("s".to_owned(), "* Star.\n * Another.\n", "");
        assert_eq!(comments.of("a"), "First.\n  Indented.\n\nSecond.\n\nThird.");
        assert_eq!(comments.of("b"), "");
        assert_eq!(comments.of("s"), "Star.\n* Another.");
        assert_eq!(comments.of("c"), "");
    }
}
