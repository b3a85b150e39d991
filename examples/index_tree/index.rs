//! Splits text into words, and builds an index from the words of many files.

use std::cmp::Reverse;
use std::collections::HashMap;

/// The number of word lengths that are counted; the last one includes all longer words.
pub const WORD_LENGTHS: usize = 32;

/// The words of one text. A word is a row of letters, digits and underscores.
pub struct Words<'t> {
    counts: HashMap<&'t str, u64>,
    pub total: u64,
    /// Counts of words by length; `by_length[0]` is for words of one letter.
    pub by_length: [u64; WORD_LENGTHS],
}

impl<'t> Words<'t> {
    pub fn of(text: &'t str) -> Self {
        let mut words = Self {
            counts: HashMap::new(),
            total: 0,
            by_length: [0; WORD_LENGTHS],
        };
        let is_separator = |letter: char| !letter.is_alphanumeric() && letter != '_';
        for word in text.split(is_separator).filter(|word| !word.is_empty()) {
            *words.counts.entry(word).or_default() += 1;
            words.total += 1;
            words.by_length[word.chars().count().min(WORD_LENGTHS) - 1] += 1;
        }
        words
    }

    pub fn distinct(&self) -> usize {
        self.counts.len()
    }

    /// Returns the `count` most frequent words; equally frequent words are in alphabetical order.
    pub fn top(&self, count: usize) -> Vec<(&'t str, u64)> {
        let words = self.counts.iter().map(|(&word, &count)| (word, count));
        first_by_key(words.collect(), count, |&(word, count)| {
            (Reverse(count), word)
        })
    }
}

/// For each word, the number of its occurrences and of the files that contain it.
#[derive(Default)]
pub struct Index {
    occurrences: HashMap<String, Occurrences>,
}

/// The occurrences of one word.
#[derive(Clone, Copy, Default)]
pub struct Occurrences {
    pub count: u64,
    pub files: u64,
}

impl Index {
    /// Adds the words of one more file.
    pub fn add_file(&mut self, words: &Words<'_>) {
        for (&word, &count) in &words.counts {
            self.add(word, Occurrences { count, files: 1 });
        }
    }

    /// Adds the words of another index.
    pub fn merge(&mut self, other: Self) {
        if self.occurrences.is_empty() {
            *self = other;
            return;
        }
        for (word, occurrences) in other.occurrences {
            self.add(&word, occurrences);
        }
    }

    pub fn distinct(&self) -> usize {
        self.occurrences.len()
    }

    /// Returns the `count` most frequent words; equally frequent words are in alphabetical order.
    pub fn top(&self, count: usize) -> Vec<(&str, Occurrences)> {
        let words = self
            .occurrences
            .iter()
            .map(|(word, &of)| (word.as_str(), of));
        first_by_key(words.collect(), count, |&(word, of)| {
            (Reverse(of.count), word)
        })
    }

    fn add(&mut self, word: &str, more: Occurrences) {
        // Only copy the word if it is new; most words are not.
        let known = match self.occurrences.get_mut(word) {
            Some(known) => known,
            None => self.occurrences.entry(word.to_owned()).or_default(),
        };
        known.count += more.count;
        known.files += more.files;
    }
}

fn first_by_key<T, K: Ord>(mut items: Vec<T>, count: usize, key: impl Fn(&T) -> K) -> Vec<T> {
    if count == 0 {
        return Vec::new();
    }
    if count < items.len() {
        items.select_nth_unstable_by_key(count, &key);
        items.truncate(count);
    }
    items.sort_unstable_by_key(&key);
    items
}
