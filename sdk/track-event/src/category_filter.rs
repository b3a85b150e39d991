//! Which categories an instance records, as its configuration says.

use tracezero_core::protos::TrackEventConfigDecoder;

/// Tags of categories that are recorded only if they are asked for.
const OFF_BY_DEFAULT: [&str; 2] = ["slow", "debug"];

/// The choice of categories in a `TrackEventConfig`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryFilter {
    enabled_categories: Patterns,
    disabled_categories: Patterns,
    enabled_tags: Patterns,
    disabled_tags: Patterns,
}

/// How exactly a pattern says what it matches. More exact ones decide first, whichever list they
/// are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchClass {
    /// `x`
    Whole,
    /// `x*`
    Prefix,
    /// `*`
    Any,
}

/// Names, and beginnings of names with a `*` behind. A `*` anywhere else stands for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patterns(Vec<String>);

impl CategoryFilter {
    /// The filter of a decoded configuration. What is malformed in it counts as absent: sessions
    /// are created only from configurations that have been checked.
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

    /// Whether a category with these tags is recorded. The order of rules is that of the reference.
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

    /// Whether the configuration chooses nothing.
    #[must_use]
    pub fn has_no_patterns(&self) -> bool {
        self.unmatched_categories(&[]).next().is_none() && self.unmatched_tags(&[]).next().is_none()
    }

    /// The patterns that switch categories on and match none of the names. Those that switch off may be a
    /// precaution.
    pub fn unmatched_categories(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        self.enabled_categories.unmatched(names)
    }

    /// The patterns that switch tags on and match none of the tags, but for those of every
    /// configuration.
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

    /// Whether a pattern of this class matches the name.
    fn match_name(&self, name: &str, class: MatchClass) -> bool {
        self.0
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                None => class == MatchClass::Whole && name == pattern,
                Some("") => class == MatchClass::Any,
                Some(prefix) => class == MatchClass::Prefix && name.starts_with(prefix),
            })
    }

    /// Those that match none of the names. A `*` is no mistake where there is none.
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

    /// Patterns, as they are in a configuration.
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

        /// The same decision, as a table: every rule that matches, with its rank; the lowest rank
        /// decides.
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

    /// 0 for a whole name, 10 for a prefix, 20 for everything; `None` without a match.
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
    fn without_a_choice_everything_is_on_but_slow_and_debug() {
        let filter = Lists::default().filter();
        assert!(filter.enables("io", &[]));
        assert!(filter.enables("", &[]));
        assert!(filter.enables("io", &["network"]));
        assert!(!filter.enables("io", &["network", "slow"]));
        assert!(!filter.enables("io", &["debug"]));
        assert!(filter.enables("slow", &[]), "tags, not names");
    }

    #[test]
    fn a_whole_name_decides_before_a_prefix_and_a_prefix_before_a_star() {
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
    fn where_patterns_are_equally_exact_enabling_a_category_comes_first() {
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
    fn a_list_of_tags_takes_the_place_of_the_default_one() {
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
    fn a_disabled_tag_decides_before_an_enabled_one() {
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
    fn random_patterns_decide_as_a_table_of_all_rules_does() {
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
