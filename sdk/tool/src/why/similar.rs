//! Finds names that are nearly the one asked for.

use std::collections::HashSet;

use tracezero_reader::{NameId, NameTable};

/// The maximum number of names that an error lists.
const NAMED_MAX: usize = 5;
/// The maximum length of names that are compared letter by letter.
const COMPARED_MAX: usize = 64;

/// Lists the names that are most similar to `name`, as the end of a message.
pub(super) fn similar_names(
    name: &str,
    known: impl Iterator<Item = NameId>,
    names: &NameTable,
) -> String {
    let known: HashSet<NameId> = known.filter(|known| !known.is_none()).collect();
    let mut ranked: Vec<(usize, &str)> = known
        .into_iter()
        .map(|known| names.text(known))
        .filter_map(|known| Some((distance(name, known)?, known)))
        .collect();
    ranked.sort_unstable();
    let named = ranked.iter().take(NAMED_MAX);
    let named: Vec<String> = named.map(|(_, known)| format!("{known:?}")).collect();
    match named.is_empty() {
        true => "; list all with: tracezero summary --top 0 FILE".to_owned(),
        false => format!("; similar ones: {}", named.join(", ")),
    }
}

/// Returns how different two names are: 0 if one contains the other, or else the number of letters
/// that differ. `None` if it is more than a third.
fn distance(asked: &str, known: &str) -> Option<usize> {
    let (asked, known) = (asked.to_lowercase(), known.to_lowercase());
    if known.contains(&asked) || (known.len() > 2 && asked.contains(&known)) {
        return Some(0);
    }
    let [asked, known] = [asked, known].map(|text| Vec::from_iter(text.chars()));
    if asked.len().max(known.len()) > COMPARED_MAX {
        return None;
    }
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (at, letter) in asked.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in known.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    let distance = row[known.len()];
    (3 * distance <= asked.len().max(known.len())).then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_first() {
        let mut names = NameTable::new();
        let known = ["checkout", "check", "read", "chekout now", ""];
        let known = known.map(|name| names.intern(name));
        let similar = |name| similar_names(name, known.iter().copied(), &names);
        assert_eq!(
            similar("chekout"),
            "; similar ones: \"chekout now\", \"checkout\""
        );
        assert_eq!(
            similar("raed"),
            "; list all with: tracezero summary --top 0 FILE"
        );
        assert_eq!(similar("CHECK"), "; similar ones: \"check\", \"checkout\"");
    }

    #[test]
    fn distance_counts_letters_that_differ() {
        assert_eq!(distance("abcdef", "abXdef"), Some(1));
        assert_eq!(distance("abcdef", "abcdefg"), Some(0));
        assert_eq!(distance("abcdef", "bcdefg"), Some(2));
        assert_eq!(distance("abc", "xyz"), None);
        assert_eq!(distance("a", &"b".repeat(100)), None);
    }
}
