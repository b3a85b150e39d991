//! The choice of categories of an instance, as its configuration states it.

use tracezero_core::protos::TrackEventConfigDecoder;

/// The tags of categories that are recorded only if a session asks for them.
const OFF_BY_DEFAULT: [&str; 2] = ["slow", "debug"];

/// The choice of categories in a `TrackEventConfig`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryFilter {
    enabled_categories: Patterns,
    disabled_categories: Patterns,
    enabled_tags: Patterns,
    disabled_tags: Patterns,
}

/// How exact a pattern is. More exact patterns decide first, regardless of the list that they are
/// in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchClass {
    /// `x`
    Whole,
    /// `x*`
    Prefix,
    /// `*`
    Any,
}

/// Names, or prefixes of names followed by `*`. A `*` anywhere else is an ordinary character.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patterns(Vec<String>);

impl CategoryFilter {
    /// Creates the filter of a decoded configuration. Malformed fields count as absent: they do not
    /// occur, because configurations are checked before a session is created.
    pub(super) fn new(config: &TrackEventConfigDecoder<'_>) -> Self {
        let enabled_tags = Patterns::new(config.enabled_tags().flatten());
        let disabled_tags = Patterns::new(config.disabled_tags().flatten());
        let is_default = enabled_tags.is_empty() && disabled_tags.is_empty();
        Self {
            enabled_categories: Patterns::new(config.enabled_categories().flatten()),
            disabled_categories: Patterns::new(config.disabled_categories().flatten()),
            enabled_tags,
            disabled_tags: if is_default {
                Patterns::new(OFF_BY_DEFAULT)
            } else {
                disabled_tags
            },
        }
    }

    /// Returns true if a category with these tags is recorded. The rules apply in the same order as
    /// in Perfetto's SDK.
    pub(crate) fn enables(&self, name: &str, tags: &[&str]) -> bool {
        for class in [MatchClass::Whole, MatchClass::Prefix, MatchClass::Any] {
            if self.enabled_categories.match_name(name, class) {
                return true;
            }
            if self.disabled_categories.match_name(name, class)
                || self.disabled_tags.match_any(tags, class)
            {
                return false;
            }
            if self.enabled_tags.match_any(tags, class) {
                return true;
            }
        }
        true
    }

    /// Returns true if the configuration enables neither a category by name or prefix, nor a tag
    /// other than `slow` and `debug`.
    #[must_use]
    pub fn has_no_patterns(&self) -> bool {
        self.unmatched_categories(&[]).next().is_none() && self.unmatched_tags(&[]).next().is_none()
    }

    /// Returns the patterns that enable categories but match none of `names`. Patterns that disable
    /// are left out: they may be a precaution.
    pub fn unmatched_categories(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        self.enabled_categories.unmatched(names)
    }

    /// Returns the patterns that enable tags but match none of `tags`. The tags `slow` and `debug`
    /// are left out, because many configurations name them.
    pub fn unmatched_tags(&self, tags: &[&str]) -> impl Iterator<Item = &str> {
        let enabled = self.enabled_tags.unmatched(tags);
        enabled.filter(|pattern| !OFF_BY_DEFAULT.contains(pattern))
    }
}

impl Patterns {
    fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        Self(patterns.into_iter().map(str::to_owned).collect())
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a pattern of this class matches the name.
    fn match_name(&self, name: &str, class: MatchClass) -> bool {
        self.0
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                None => class == MatchClass::Whole && name == pattern,
                Some("") => class == MatchClass::Any,
                Some(prefix) => class == MatchClass::Prefix && name.starts_with(prefix),
            })
    }

    /// Returns the patterns that match none of the names. The pattern `*` is left out: it makes
    /// sense even if there are no names.
    fn unmatched(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        let patterns = self.0.iter().map(String::as_str);
        patterns.filter(move |&pattern| {
            let is_match = |name: &&str| match pattern.strip_suffix('*') {
                None => *name == pattern,
                Some(prefix) => name.starts_with(prefix),
            };
            pattern != "*" && !names.iter().any(is_match)
        })
    }

    fn match_any(&self, names: &[&str], class: MatchClass) -> bool {
        names.iter().any(|name| self.match_name(name, class))
    }
}

#[cfg(test)]
mod tests {
    use protozero::HeapBuffered;

    use super::*;
    use tracezero_core::protos::TrackEventConfig;

    /// The four pattern lists of a configuration.
    #[derive(Clone, Debug, Default)]
    struct Lists {
        enabled: Vec<&'static str>,
        disabled: Vec<&'static str>,
        enabled_tags: Vec<&'static str>,
        disabled_tags: Vec<&'static str>,
    }

    impl Lists {
        fn filter(&self) -> CategoryFilter {
            let mut encoded = HeapBuffered::<TrackEventConfig<'_>>::new();
            {
                let mut config = encoded.message();
                for pattern in &self.enabled {
                    config.add_enabled_categories(pattern);
                }
                for pattern in &self.disabled {
                    config.add_disabled_categories(pattern);
                }
                for pattern in &self.enabled_tags {
                    config.add_enabled_tags(pattern);
                }
                for pattern in &self.disabled_tags {
                    config.add_disabled_tags(pattern);
                }
            }
            CategoryFilter::new(&TrackEventConfigDecoder::new(&encoded.to_vec()))
        }

        /// Makes the same decision as [`CategoryFilter::enables`], from a table of all matching
        /// rules; the rule with the lowest rank decides.
        fn decide(&self, name: &str, tags: &[&str]) -> bool {
            let no_tags = self.enabled_tags.is_empty() && self.disabled_tags.is_empty();
            let disabled_tags = if no_tags {
                vec!["slow", "debug"]
            } else {
                self.disabled_tags.clone()
            };
            let by_name = [(&self.enabled, 0, true), (&self.disabled, 1, false)];
            let by_tag = [(&disabled_tags, 2, false), (&self.enabled_tags, 3, true)];
            let mut matching = vec![(u32::MAX, true)];
            for (patterns, rank, decision) in by_name {
                for pattern in patterns {
                    matching.extend(class_rank(pattern, name).map(|c| (c + rank, decision)));
                }
            }
            for (patterns, rank, decision) in by_tag {
                for (pattern, tag) in patterns
                    .iter()
                    .flat_map(|pattern| tags.iter().map(move |tag| (pattern, tag)))
                {
                    matching.extend(class_rank(pattern, tag).map(|c| (c + rank, decision)));
                }
            }
            matching.into_iter().min().unwrap().1
        }
    }

    /// Returns 0 for a whole name, 10 for a prefix, 20 for `*`; `None` without a match.
    fn class_rank(pattern: &str, name: &str) -> Option<u32> {
        if pattern == "*" {
            return Some(20);
        }
        if pattern.ends_with('*') {
            let length = pattern.len() - 1;
            let is_match = name.len() >= length && name[..length] == pattern[..length];
            return is_match.then_some(10);
        }
        (pattern == name).then_some(0)
    }

    #[test]
    fn by_default_all_but_slow_and_debug_are_on() {
        let filter = Lists::default().filter();
        assert!(filter.enables("io", &[]));
        assert!(filter.enables("", &[]));
        assert!(filter.enables("io", &["network"]));
        assert!(!filter.enables("io", &["network", "slow"]));
        assert!(!filter.enables("io", &["debug"]));
        assert!(filter.enables("slow", &[]), "tags, not names");
    }

    #[test]
    fn whole_name_beats_prefix_and_prefix_beats_star() {
        let filter = Lists {
            enabled: vec!["io.*", "net"],
            disabled: vec!["*", "io.cache", "net.*"],
            ..Lists::default()
        }
        .filter();
        assert!(filter.enables("io.read", &[]));
        assert!(!filter.enables("io.cache", &[]));
        assert!(!filter.enables("io", &[]), "not a beginning of it");
        assert!(filter.enables("net", &[]));
        assert!(!filter.enables("net.tls", &[]));
        assert!(!filter.enables("ui", &[]));
    }

    #[test]
    fn enabled_category_wins_among_equally_exact_patterns() {
        let filter = Lists {
            enabled: vec!["io", "net*", "*"],
            disabled: vec!["io", "net*", "n*", "*"],
            ..Lists::default()
        }
        .filter();
        assert!(filter.enables("io", &[]));
        assert!(filter.enables("net", &[]));
        assert!(!filter.enables("new", &[]));
        assert!(filter.enables("ui", &[]));
    }

    #[test]
    fn enabling_everything_leaves_slow_and_debug_off() {
        let filter = Lists {
            enabled: vec!["*"],
            ..Lists::default()
        }
        .filter();
        assert!(filter.enables("io", &[]));
        assert!(!filter.enables("io", &["slow"]));
        let by_name = Lists {
            enabled: vec!["io"],
            ..Lists::default()
        }
        .filter();
        assert!(by_name.enables("io", &["slow"]), "asked for by name");
    }

    #[test]
    fn explicit_tags_replace_the_default_list() {
        let filter = Lists {
            disabled_tags: vec!["network"],
            ..Lists::default()
        }
        .filter();
        assert!(filter.enables("io", &["slow", "debug"]));
        assert!(!filter.enables("io", &["slow", "network"]));
        let filter = Lists {
            enabled_tags: vec!["slow"],
            disabled_tags: vec!["*"],
            ..Lists::default()
        }
        .filter();
        assert!(filter.enables("io", &["slow", "network"]));
        assert!(!filter.enables("io", &["network"]));
        assert!(filter.enables("io", &[]), "without a tag no list matches");
    }

    #[test]
    fn disabled_tag_beats_enabled_tag() {
        let filter = Lists {
            enabled_tags: vec!["a"],
            disabled_tags: vec!["b"],
            ..Lists::default()
        }
        .filter();
        assert!(!filter.enables("io", &["a", "b"]));
        assert!(filter.enables("io", &["a"]));
    }

    #[test]
    fn random_patterns_decide_as_the_rule_table_does() {
        const PATTERNS: [&str; 9] = ["*", "a*", "ab*", "b*", "a", "ab", "abc", "slow", "sl*"];
        const NAMES: [&str; 7] = ["a", "ab", "abc", "b", "slow", "debug", ""];
        let mut state = 1_u64;
        // xorshift64.
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % limit as u64) as usize
        };
        let mut decisions = [0; 2];
        for _ in 0..20_000 {
            let mut list =
                || -> Vec<&'static str> { (0..below(4)).map(|_| PATTERNS[below(9)]).collect() };
            let lists = Lists {
                enabled: list(),
                disabled: list(),
                enabled_tags: list(),
                disabled_tags: list(),
            };
            let tags: Vec<&str> = (0..below(3)).map(|_| NAMES[below(7)]).collect();
            let name = NAMES[below(7)];
            let expected = lists.decide(name, &tags);
            let decided = lists.filter().enables(name, &tags);
            assert_eq!(decided, expected, "{name:?} {tags:?} {lists:?}");
            decisions[usize::from(decided)] += 1;
        }
        assert!(decisions.iter().all(|&count| count > 2000), "{decisions:?}");
    }
}
