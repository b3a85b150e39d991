//! Cuts groups out of a schema, because the generator rejects them. All other declarations keep
//! their lines.

/// Returns the text without fields like `optional group Data = 201 { .. }`.
///
/// Sufficient for the schemas of these tests: each group begins on a line of its own, and none has
/// a brace in a comment.
pub(crate) fn cut(text: &str) -> String {
    let mut kept = String::new();
    let mut open_braces = 0;
    for line in text.lines() {
        let is_inside = open_braces > 0;
        if is_inside || is_group(line) {
            open_braces += line.matches('{').count();
            open_braces -= line.matches('}').count();
        } else {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

fn is_group(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let label = words.next();
    let is_labelled =
        label.is_some_and(|word| ["optional", "repeated", "required"].contains(&word));
    is_labelled && words.next() == Some("group") && line.contains('{')
}
