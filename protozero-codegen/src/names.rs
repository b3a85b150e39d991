//! Rust names for protobuf names: letter case, keywords, and collisions.

use std::collections::BTreeSet;

/// Converts a name to snake case: `fooBar` to `foo_bar`, `HTTPServer2` to `http_server2`, and
/// `__foo` to `foo`.
pub(crate) fn snake_case(name: &str) -> String {
    legal(snake_case_part(name))
}

/// Converts a name to snake case, for use as a part of an identifier. The result alone may not be
/// an identifier: `_1st` becomes `1st`, and `__` an empty text.
pub(crate) fn snake_case_part(name: &str) -> String {
    let words: Vec<String> = words(name)
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .collect();
    words.join("_")
}

/// Makes an identifier from a part of an identifier.
pub(crate) fn whole(part: &str) -> String {
    escaped(&legal(part.to_owned()))
}

/// Converts a name to upper camel case: `foo_bar` to `FooBar`, and `HTTPServer` to `HttpServer`.
pub(crate) fn upper_camel_case(name: &str) -> String {
    let capitalized = |word: &String| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
    };
    legal(words(name).iter().map(capitalized).collect())
}

/// Converts a name to upper snake case: `fooBar` to `FOO_BAR`.
pub(crate) fn upper_snake_case(name: &str) -> String {
    let words: Vec<String> = words(name)
        .iter()
        .map(|word| word.to_ascii_uppercase())
        .collect();
    legal(words.join("_"))
}

/// Splits a name into words: at underscores, before a capital that follows a small letter, and
/// before the last of several capitals if a small letter follows. A digit belongs to the letter
/// before it.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let characters: Vec<char> = part.chars().collect();
        let mut word = String::new();
        let mut after_small = false;
        for (index, &character) in characters.iter().enumerate() {
            let is_capital = character.is_ascii_uppercase();
            let next_is_small = characters
                .get(index + 1)
                .is_some_and(char::is_ascii_lowercase);
            let previous_is_capital = index > 0 && characters[index - 1].is_ascii_uppercase();
            if is_capital && (after_small || (previous_is_capital && next_is_small)) {
                words.push(std::mem::take(&mut word));
            }
            if character.is_ascii_alphabetic() {
                after_small = !is_capital;
            }
            word.push(character);
        }
        words.push(word);
    }
    words
}

/// Makes the start of a constant's name from a part of an identifier.
pub(crate) fn constant_prefix(part: &str) -> String {
    legal(part.to_ascii_uppercase())
}

/// Puts an underscore before a name that is empty or starts with a digit.
fn legal(name: String) -> String {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        format!("_{name}")
    } else {
        name
    }
}

/// Keywords that cannot even be raw identifiers.
const NEVER_IDENTIFIERS: [&str; 5] = ["_", "Self", "crate", "self", "super"];

/// Escapes a keyword: as a raw identifier if Rust allows it, otherwise with an underscore behind.
pub(crate) fn escaped(name: &str) -> String {
    if name == "_" {
        return "__".to_owned();
    }
    if NEVER_IDENTIFIERS.contains(&name) {
        return format!("{name}_");
    }
    if syn::parse_str::<syn::Ident>(name).is_err() || name == "gen" {
        return format!("r#{name}");
    }
    name.to_owned()
}

/// The set of names that are taken in one scope.
#[derive(Debug, Default, Clone)]
pub(crate) struct Taken(BTreeSet<String>);

impl Taken {
    pub(crate) fn with(names: &[&str]) -> Self {
        Taken(names.iter().map(|&name| name.to_owned()).collect())
    }

    /// Takes all of the names and returns true, or takes none if one of them is taken.
    pub(crate) fn claim_all(&mut self, names: &[String]) -> bool {
        if names.iter().any(|name| self.0.contains(name)) {
            return false;
        }
        self.0.extend(names.iter().cloned());
        true
    }

    /// Takes the name and returns it. If the name is taken, appends the first number from 2 that
    /// makes a free name.
    pub(crate) fn claim(&mut self, name: &str) -> String {
        let numbered = (2_u32..).map(|number| format!("{name}{number}"));
        for candidate in std::iter::once(name.to_owned()).chain(numbered) {
            if self.0.insert(candidate.clone()) {
                return candidate;
            }
        }
        unreachable!("the numbers never end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_every_spelling() {
        for (name, snake, camel) in [
            ("foo_bar", "foo_bar", "FooBar"),
            ("fooBar", "foo_bar", "FooBar"),
            ("FOO_BAR", "foo_bar", "FooBar"),
            ("HTTPServer2", "http_server2", "HttpServer2"),
            ("int32Value", "int32_value", "Int32Value"),
            ("__big__Bang_", "big_bang", "BigBang"),
            ("x", "x", "X"),
            ("_1st", "_1st", "_1st"),
            ("__", "_", "_"),
        ] {
            assert_eq!(snake_case(name), snake, "{name}");
            assert_eq!(upper_camel_case(name), camel, "{name}");
        }
    }

    #[test]
    fn keywords_become_identifiers() {
        for (name, escaped_name) in [
            ("type", "r#type"),
            ("gen", "r#gen"),
            ("extern", "r#extern"),
            ("self", "self_"),
            ("Self", "Self_"),
            ("crate", "crate_"),
            ("super", "super_"),
            ("_", "__"),
            ("union", "union"),
            ("name", "name"),
        ] {
            assert_eq!(escaped(name), escaped_name);
        }
    }

    #[test]
    fn taken_names_get_numbers() {
        let mut taken = Taken::default();
        let claimed: Vec<String> = (0..3).map(|_| taken.claim("Foo")).collect();
        assert_eq!(claimed, ["Foo", "Foo2", "Foo3"]);
    }

    #[test]
    fn set_of_names_is_taken_whole_or_not_at_all() {
        let mut taken = Taken::with(&["b"]);
        let [a, b] = ["a", "b"].map(str::to_owned);
        assert!(!taken.claim_all(&[a.clone(), b]));
        assert!(taken.claim_all(&[a]));
    }
}
