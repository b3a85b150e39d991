//! Suggestions for misspelled names.

/// The largest number of edits between the written name and a suggestion.
const EDITS_MAX: usize = 3;

/// Returns the name that is most similar to `wrong`, or `None` if no name is similar. Of equally
/// similar names, returns the first.
pub(super) fn similar<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let wrong_len = wrong.chars().count();
    names
        .map(|name| (edits(wrong, name), name))
        .filter(|&(edits, name)| {
            // The user perhaps did not finish typing the name.
            let unfinished = wrong_len > 2 && name.starts_with(wrong);
            unfinished || edits <= EDITS_MAX.min(wrong_len / 2)
        })
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, name)| name)
}

/// Returns the number of characters to insert, remove or replace to turn `a` into `b`, ignoring
/// case.
fn edits(a: &str, b: &str) -> usize {
    // Compute the table of distances between all prefixes of both names, row by row.
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(!a.eq_ignore_ascii_case(&b));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edit_counts_once_and_case_is_ignored() {
        assert_eq!(edits("", ""), 0);
        assert_eq!(edits("size_kb", "SIZE_KB"), 0);
        assert_eq!(edits("size_kb", "sizes_kb"), 1);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("abc", ""), 3);
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let names = || ["buffers", "size_kb", "duration_ms"].into_iter();
        assert_eq!(similar("bufers", names()), Some("buffers"));
        assert_eq!(similar("duration", names()), Some("duration_ms"));
        assert_eq!(similar("zzz", names()), None);
        assert_eq!(similar("", names()), None);
    }
}
